package grapnel.receiver.spring;

import grapnel.receiver.BusyException;
import grapnel.receiver.Handler;
import grapnel.receiver.Receiver;
import grapnel.receiver.VerificationException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.InputStream;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.springframework.web.HttpRequestHandler;

/**
 * Responds to Grapnel's requests in Spring MVC, after the transaction of each event has ended. 204: processed, or a
 * duplicate. 401: a wrong signature. 413: the body is too large. 503: the handler or the store failed, and Grapnel
 * sends the event again. As a bean whose name is a path, it is mapped there: {@code @Bean("/hooks")}.
 */
public final class GrapnelHandler implements HttpRequestHandler {
    private static final Logger LOG = System.getLogger("grapnel.receiver");

    private final Receiver receiver;
    private final Handler handler;
    private final int maxBody;

    /**
     * Accepts bodies of up to 1 MiB, as Grapnel does by default.
     *
     * @param receiver verifies requests, and stores events
     * @param handler your work
     */
    public GrapnelHandler(Receiver receiver, Handler handler) {
        this(receiver, handler, 1 << 20);
    }

    private GrapnelHandler(Receiver receiver, Handler handler, int maxBody) {
        this.receiver = receiver;
        this.handler = handler;
        this.maxBody = maxBody;
    }

    /**
     * The same for larger or smaller bodies.
     *
     * @param bytes at least {@code ingress.max_body} of Grapnel
     * @return a new handler
     */
    public GrapnelHandler withMaxBody(int bytes) {
        return new GrapnelHandler(receiver, handler, bytes);
    }

    @Override
    public void handleRequest(HttpServletRequest request, HttpServletResponse response) {
        // setStatus() and not sendError(), which would add an error page.
        response.setStatus(status(request, response));
    }

    private int status(HttpServletRequest request, HttpServletResponse response) {
        if (!request.getMethod().equals("POST") && !request.getMethod().equals("PUT")) {
            response.setHeader("Allow", "POST, PUT");
            return 405;
        }
        byte[] body;
        try {
            body = body(request.getInputStream());
        } catch (IOException e) {
            return 400; // the client has gone
        }
        if (body == null) {
            return 413;
        }
        try {
            if (body.length < request.getContentLengthLong()) {
                throw new IllegalStateException("something has read the request's body before: exclude its path from "
                        + "filters that call getParameter(), or set spring.servlet.multipart.enabled=false");
            }
            receiver.receive(headers(request), body, handler);
            return 204;
        } catch (VerificationException e) {
            LOG.log(Level.WARNING, "grapnel: refused a request: {0}", e.getMessage());
            return 401;
        } catch (BusyException e) {
            response.setHeader("Retry-After", "10");
            return 503;
        } catch (Exception e) {
            LOG.log(Level.ERROR, "grapnel: an event was not processed; Grapnel sends it again", e);
            return 503;
        }
    }

    /**
     * Null: it is too large. The rest is read and dropped, because the response to a request that is still being sent
     * could be lost.
     */
    private byte[] body(InputStream in) throws IOException {
        byte[] body = in.readNBytes(maxBody);
        byte[] rest = new byte[8192];
        boolean more = false;
        while (in.read(rest) > 0) {
            more = true;
        }
        return more ? null : body;
    }

    private static Map<String, List<String>> headers(HttpServletRequest request) {
        Map<String, List<String>> headers = new LinkedHashMap<>();
        for (String name : Collections.list(request.getHeaderNames())) {
            headers.put(name, new ArrayList<>(Collections.list(request.getHeaders(name))));
        }
        return headers;
    }
}

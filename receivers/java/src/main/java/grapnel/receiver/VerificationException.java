package grapnel.receiver;

/** The request is not from your Grapnel, or not as Grapnel sent it. Respond 401. */
public class VerificationException extends Exception {
    private static final long serialVersionUID = 1;

    VerificationException(String message) {
        super(message);
    }
}

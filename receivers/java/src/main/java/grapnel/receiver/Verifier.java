package grapnel.receiver;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.PublicKey;
import java.security.Signature;
import java.security.SignatureException;
import java.security.spec.X509EncodedKeySpec;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies the headers webhook-signature (Standard Webhooks) and grapnel-signature. */
final class Verifier {
    private static final int SIGNATURES_MAX = 32; // of one header: a stranger must not make us verify hundreds
    private static final Pattern DIGITS = Pattern.compile("[0-9]{1,12}");
    // Before the 32 bytes of a public key.
    private static final byte[] ED25519_DER = HexFormat.of().parseHex("302a300506032b6570032100");

    private final List<Key> keys = new ArrayList<>();

    /** A secret of the endpoint. */
    private interface Key {
        boolean signed(String version, String signature, byte[] content) throws GeneralSecurityException;
    }

    /** A header. Its value is Latin-1 text, so that each character is one byte. */
    private record Header(String name, String value) {}

    Verifier(String... secrets) {
        if (secrets.length == 0) {
            throw new IllegalArgumentException("a receiver needs at least one secret");
        }
        for (String secret : secrets) {
            keys.add(key(secret));
        }
    }

    private static Key key(String secret) {
        if (secret.startsWith("whsec_")) {
            SecretKeySpec key = new SecretKeySpec(decode(secret, "whsec_"), "HmacSHA256");
            return (version, signature, content) -> {
                Mac mac = Mac.getInstance("HmacSHA256");
                mac.init(key);
                byte[] want = Base64.getEncoder().encode(mac.doFinal(content));
                return version.equals("v1") && MessageDigest.isEqual(latin1(signature), want);
            };
        }
        if (secret.startsWith("whpk_")) {
            PublicKey key = publicKey(decode(secret, "whpk_"));
            return (version, signature, content) -> version.equals("v1a") && verify(key, signature, content);
        }
        if (secret.startsWith("whsk_")) {
            throw new IllegalArgumentException("whsk_… is the private key, which only Grapnel needs; "
                    + "give the receiver the public key, whpk_…");
        }
        throw new IllegalArgumentException("a secret begins with whsec_ or whpk_");
    }

    private static byte[] decode(String secret, String prefix) {
        String text = secret.substring(prefix.length());
        try {
            byte[] key = Base64.getDecoder().decode(text);
            if (key.length > 0 && Base64.getEncoder().encodeToString(key).equals(text)) {
                return key;
            }
        } catch (IllegalArgumentException e) {
            // The message below does not quote the secret.
        }
        throw new IllegalArgumentException("after " + prefix + " a secret has base64; this one has not");
    }

    private static PublicKey publicKey(byte[] raw) {
        if (raw.length != 32) {
            throw new IllegalArgumentException("a key whpk_… has 32 bytes; this one has " + raw.length);
        }
        byte[] encoded = new byte[ED25519_DER.length + raw.length];
        System.arraycopy(ED25519_DER, 0, encoded, 0, ED25519_DER.length);
        System.arraycopy(raw, 0, encoded, ED25519_DER.length, raw.length);
        try {
            PublicKey key = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(encoded));
            Signature.getInstance("Ed25519").initVerify(key); // refuses what is not a point of the curve
            return key;
        } catch (GeneralSecurityException e) {
            throw new IllegalArgumentException("after whpk_ a secret has an Ed25519 public key; this one has not", e);
        }
    }

    private static boolean verify(PublicKey key, String signature, byte[] content) throws GeneralSecurityException {
        Signature verifier = Signature.getInstance("Ed25519");
        verifier.initVerify(key);
        verifier.update(content);
        try {
            return verifier.verify(Base64.getDecoder().decode(signature));
        } catch (SignatureException | IllegalArgumentException e) {
            return false; // its length, or its base64
        }
    }

    /** Of requests without grapnel-signature, such as alerts: the event has only id, timestamp and body. */
    Event verifyStandard(Map<String, List<String>> headers, byte[] body, Instant now, long toleranceS)
            throws VerificationException {
        List<Header> all = flat(headers);
        Instant timestamp = standard(all, body, now, toleranceS);
        return new Event(utf8(one(all, "webhook-id")), timestamp, body, Map.of());
    }

    Event verify(Map<String, List<String>> headers, byte[] body, Instant now, long toleranceS)
            throws VerificationException {
        List<Header> all = flat(headers);
        Instant timestamp = standard(all, body, now, toleranceS);
        String id = one(all, "webhook-id");
        List<Header> ours = new ArrayList<>(all);
        ours.removeIf(h -> !h.name.startsWith("grapnel-") || h.name.equals("grapnel-signature"));
        ours.sort(Comparator.comparing(Header::name).thenComparing(Header::value)); // Latin-1 sorts as its bytes do
        StringBuilder content = new StringBuilder("grapnel-signature v1\n")
                .append("webhook-id ").append(id)
                .append("\nwebhook-timestamp ").append(one(all, "webhook-timestamp"))
                .append("\nbody-sha256 ").append(sha256(body)).append('\n');
        Map<String, String> covered = new LinkedHashMap<>();
        for (Header h : ours) {
            content.append(h.name).append(' ').append(h.value).append('\n');
            covered.put(h.name, utf8(h.value));
        }
        mustBeSigned(all, "grapnel-signature", latin1(content.toString()));
        return new Event(utf8(id), timestamp, body, covered);
    }

    private Instant standard(List<Header> headers, byte[] body, Instant now, long toleranceS)
            throws VerificationException {
        String time = one(headers, "webhook-timestamp");
        if (!DIGITS.matcher(time).matches()) {
            throw new VerificationException("webhook-timestamp is not a number");
        }
        Instant timestamp = Instant.ofEpochSecond(Long.parseLong(time));
        if (Math.abs(now.getEpochSecond() - timestamp.getEpochSecond()) > toleranceS) {
            throw new VerificationException(
                    "webhook-timestamp is more than " + toleranceS + " s from this machine's clock");
        }
        String id = one(headers, "webhook-id");
        if (id.isEmpty()) {
            throw new VerificationException("webhook-id is empty");
        }
        byte[] prefix = latin1(id + "." + time + ".");
        byte[] content = new byte[prefix.length + body.length];
        System.arraycopy(prefix, 0, content, 0, prefix.length);
        System.arraycopy(body, 0, content, prefix.length, body.length);
        mustBeSigned(headers, "webhook-signature", content);
        return timestamp;
    }

    /** Tries each key with each signature, so the time does not tell which one was right. */
    private void mustBeSigned(List<Header> headers, String name, byte[] content) throws VerificationException {
        String[] signatures = one(headers, name).split(" ", -1);
        if (signatures.length > SIGNATURES_MAX) {
            throw new VerificationException("a header has more than " + SIGNATURES_MAX + " signatures");
        }
        boolean good = false;
        for (String signature : signatures) {
            int comma = signature.indexOf(',');
            String version = signature.substring(0, Math.max(comma, 0));
            for (Key key : keys) {
                try {
                    good |= key.signed(version, signature.substring(comma + 1), content);
                } catch (InvalidKeyException e) {
                    throw new IllegalStateException("a key worked at the start and is refused now", e);
                } catch (GeneralSecurityException e) {
                    throw new IllegalStateException("this Java has no HmacSHA256 or Ed25519", e);
                }
            }
        }
        if (!good) {
            throw new VerificationException(name + " is wrong");
        }
    }

    private static List<Header> flat(Map<String, List<String>> headers) {
        List<Header> all = new ArrayList<>();
        headers.forEach((name, values) -> {
            for (String value : values) {
                if (value.chars().anyMatch(c -> c > 0xff)) {
                    throw new IllegalArgumentException("header " + name + " was decoded as something else than "
                            + "Latin-1, so its bytes are lost; pass it as Latin-1 text, as servlet containers do");
                }
                all.add(new Header(name.toLowerCase(Locale.ROOT), trimmed(value)));
            }
        });
        return all;
    }

    private static String trimmed(String value) {
        int from = 0;
        int to = value.length();
        while (from < to && blank(value.charAt(from))) {
            from++;
        }
        while (from < to && blank(value.charAt(to - 1))) {
            to--;
        }
        return value.substring(from, to);
    }

    private static boolean blank(char c) {
        return c == ' ' || c == '\t';
    }

    private static String one(List<Header> headers, String name) throws VerificationException {
        List<Header> found = headers.stream().filter(h -> h.name.equals(name)).toList();
        if (found.size() != 1) {
            throw new VerificationException("the request has " + found.size() + " headers " + name + ", not one");
        }
        return found.get(0).value;
    }

    private static byte[] latin1(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    private static String utf8(String latin1) {
        return new String(latin1(latin1), StandardCharsets.UTF_8);
    }

    private static String sha256(byte[] body) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body));
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("each Java has SHA-256", e);
        }
    }
}

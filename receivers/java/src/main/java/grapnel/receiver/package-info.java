/**
 * Receives Grapnel's deliveries: verifies the signatures, processes each event once, and tells whether events are
 * missing or old. Begin with {@link grapnel.receiver.Receiver}.
 */
package grapnel.receiver;

/** Receives Grapnel's deliveries in Spring MVC, and processes them in the transactions of Spring. */
package grapnel.receiver.spring;

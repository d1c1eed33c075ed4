#!/usr/bin/env python3
"""Stores an order, and the webhook about it, in one transaction (SQLAlchemy 1.4 or 2)."""

import json
import os
import sys
import uuid

from sqlalchemy import Column, Identity, Integer, String, Text, create_engine
from sqlalchemy.orm import Session, declarative_base

Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"
    id = Column(Integer, Identity(always=True), primary_key=True)
    customer = Column(Text, nullable=False)
    total = Column(Integer, nullable=False)


class Webhook(Base):
    """Only what the application writes: the other columns belong to Grapnel."""

    __tablename__ = "webhook_outbox"
    id = Column(String(36), primary_key=True, default=lambda: str(uuid.uuid4()))
    event_type = Column(String(255))
    workspace = Column(String(255))
    payload = Column(Text)


def place_order(session, customer, total):
    order = Order(customer=customer, total=total)
    session.add(order)
    session.flush()  # the database gives the order its id
    session.add(Webhook(event_type="order.placed", workspace=customer, payload=json.dumps(
        {"order": order.id, "customer": customer, "total": total})))
    return order.id


if __name__ == "__main__":
    engine = create_engine(os.environ["DATABASE_URL"])
    with Session(engine) as session, session.begin():
        order = place_order(session, "acme", 4200)
        if len(sys.argv) > 1:  # any exception in the transaction rolls both back
            raise RuntimeError("the payment was declined")
    print(f"order {order}")

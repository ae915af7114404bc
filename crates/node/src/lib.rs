//! The pure driver: what is persisted, sent, applied and answered, in which order.

//! The seeded world.

//! The simulator: sessions of the engine on virtual links, with a virtual clock and faults, and the rules held after each step.

pub(crate) mod chart;
mod check;
mod consumer;
mod end;
pub(crate) mod fault;
mod hostile;
mod link;
mod memory;
mod message;
pub(crate) mod random;
pub(crate) mod runner;
pub(crate) mod script;
pub(crate) mod spec;
mod transport;
mod wire;
mod world;

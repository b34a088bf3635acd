//! What the program says of itself while it runs: logs.

mod log;

pub use log::{LogFormat, LogLevel, LogSettings, start};

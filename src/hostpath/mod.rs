//! The embedded CSI plugin.

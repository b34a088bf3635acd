//! CSI over gRPC.

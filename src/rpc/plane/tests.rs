//! Tests of servers and nodes with real sockets and certificates.

mod bed;
mod breaks;
mod calls;
mod forwarded;
mod lists;
mod requests;
mod strangers;
mod trust;

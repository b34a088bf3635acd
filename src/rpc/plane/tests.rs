//! Tests of servers and nodes with real sockets and certificates.

mod bed;
mod breaks;
mod calls;
mod lists;
mod passed_on;
mod strangers;
mod trust;

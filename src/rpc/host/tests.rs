//! The calls of a server to a node, compared with the same calls of the ports without a connection.

mod answers;
mod calls;
mod connection;
mod failures;
mod outages;
mod real_hosts;
mod request;
mod samples;
mod scripted;
mod secrecy;
mod terms;

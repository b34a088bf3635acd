//! The event stream: which events of the journal a subscriber sees, in the words of Nomad.
//!
//! The rules here are pure. `server::http::events` reads the journal and sends the lines.

mod notice;
mod subscription;

pub(super) use notice::{Notice, NoticeSubject, notices};
pub(super) use subscription::Subscription;

//! The ACL: who sends a request, and what that client may do.
//!
//! With an ACL, a request may do what the policies of its token grant together, and nothing else; a request without a
//! token has the policy `anonymous`, if there is one. The operator on the machine of a server, known by the kernel or by the
//! token in the data directory, may do everything: that user can read the state and its key anyway. Rights are
//! looked up whenever they are used, so a request that waits does not keep what was taken away.

mod rights;
mod service;

pub use rights::Rights;
pub use service::{
    AclService, AclSettings, Bearer, NewToken, SecretHash, TokenExpiry, TokenKind, TokenUpdate,
};

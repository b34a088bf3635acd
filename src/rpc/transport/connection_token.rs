//! [`ConnectionToken`]: joins the two connections of a node.
//!
//! The answer to a registration has it, and the reversed connection begins with it. So the server knows the node before it
//! sends a call, and asks nothing of a service that the node has not shown to be its own. A token ends with the connection that
//! registered, and counts only with the certificate of that connection.

use std::fmt;

use rustls::crypto::GetRandomFailed;

use crate::tls::provider::provider;

/// Joins the two connections of a node. `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ConnectionToken([u8; Self::LENGTH]);

impl ConnectionToken {
    /// The number of its bytes.
    pub const LENGTH: usize = 32;

    /// Wraps the bytes that the server sent.
    pub fn new(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// Returns a new one.
    pub(super) fn random() -> Result<Self, GetRandomFailed> {
        let mut bytes = [0; Self::LENGTH];
        provider().secure_random.fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the bytes, to send them.
    pub fn expose(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}

impl fmt::Debug for ConnectionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionToken([REDACTED])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_are_in_no_debug_output() {
        let (one, other) = (ConnectionToken::random().unwrap(), ConnectionToken::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(format!("{one:?}"), "ConnectionToken([REDACTED])");
    }
}

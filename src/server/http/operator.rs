//! Who is the operator: the client that shows the agent's token, or that the kernel names on the Unix socket.
//!
//! Nothing is looked up while a request is handled: a socket or a process that ends in the meantime would be described as
//! it is then. A token counts only if it is complete and the only one of the request. An agent without a token admits
//! no client by one.

use std::path::{Path, PathBuf};

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::connection_slots::Peer;
use crate::error::RequestError;
use nomad_csi_model::shell_quoted;
use nomad_csi_wire::TOKEN;

/// The fewest characters of a token.
const SHORTEST: usize = 32;

/// The token of the operator. `Debug` does not show it.
#[derive(Clone)]
pub struct OperatorToken(Zeroizing<[u8; 32]>);

impl OperatorToken {
    /// The token with this text; `None` if the text is too short to be secret. Only its hash is kept.
    pub fn new(text: &str) -> Option<Self> {
        (text.len() >= SHORTEST).then(|| Self::hash(text.as_bytes()))
    }

    fn hash(text: &[u8]) -> Self {
        Self(Zeroizing::new(Sha256::digest(text).into()))
    }

    /// Compares in a time that says nothing about the token.
    fn is_equal(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }
}

impl std::fmt::Debug for OperatorToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OperatorToken([hidden])")
    }
}

/// How an operator is recognized, and what a refused client reads.
#[derive(Clone, Debug, Default)]
pub struct OperatorAccess {
    /// The token and the file that has it; `None` if no token admits a client.
    pub token: Option<(OperatorToken, PathBuf)>,
    /// The Unix socket.
    pub socket: PathBuf,
    /// Cancelled when the token ends, which is before the agent leaves its address to another program.
    pub ended: CancellationToken,
}

/// The tokens of a request.
pub(super) enum Shown<'a> {
    None,
    One(&'a [u8]),
    Several,
}

impl OperatorAccess {
    /// Checks that a request comes from the operator.
    ///
    /// # Errors
    /// If that is not certain.
    pub(super) fn check(&self, peer: Peer, headers: &HeaderMap) -> Result<(), RequestError> {
        let is_operator = match peer {
            Peer::Operator => true,
            Peer::Network | Peer::Loopback | Peer::Stranger => {
                !self.ended.is_cancelled()
                    && matches!((&self.token, shown(headers)), (Some((token, _)), Shown::One(text))
                        if token.is_equal(&OperatorToken::hash(text)))
            }
        };
        match is_operator {
            true => Ok(()),
            false => Err(RequestError::NotOperator {
                why: match self.ended.is_cancelled() {
                    true => "the agent is stopping, and its token has ended",
                    false => why_not(peer, headers),
                },
                ways: self.ways(peer),
            }),
        }
    }

    /// The settings of Nomad's and this command line with which the operator is admitted.
    fn ways(&self, peer: Peer) -> Vec<String> {
        let quoted = |path: &Path| shell_quoted(path.to_string_lossy());
        let token = self.token.iter();
        let token = token.map(|(_, file)| format!("NOMAD_TOKEN=$(cat {})", quoted(file)));
        let socket = (peer != Peer::Stranger).then(|| {
            let address = format!("unix://{}", self.socket.display());
            format!("NOMAD_ADDR={}", shell_quoted(&address))
        });
        token.chain(socket).collect()
    }
}

fn why_not(peer: Peer, headers: &HeaderMap) -> &'static str {
    match (shown(headers), peer) {
        (Shown::Several, _) => "the request has several tokens",
        (Shown::One(_), _) => "the request has another token",
        (Shown::None, Peer::Stranger) => {
            "the client is in other namespaces than the agent, as tasks are, or its process is unknown"
        }
        (Shown::None, Peer::Network | Peer::Loopback | Peer::Operator) => {
            "the request has no token"
        }
    }
}

/// Finds the token where Nomad does: in `X-Nomad-Token`, or after `Bearer` in `Authorization`.
pub(super) fn shown(headers: &HeaderMap) -> Shown<'_> {
    let own = headers.get_all(TOKEN).iter().map(HeaderValue::as_bytes);
    let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    let shown = own.chain(bearer).map(<[u8]>::trim_ascii);
    let mut shown = shown.filter(|text| !text.is_empty());
    match (shown.next(), shown.next()) {
        (None, _) => Shown::None,
        (Some(only), None) => Shown::One(only),
        (Some(_), Some(_)) => Shown::Several,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdef0123456789abcdef";
    const NO_OPERATOR: [Peer; 3] = [Peer::Network, Peer::Loopback, Peer::Stranger];

    fn access(token: Option<&str>) -> OperatorAccess {
        let token = token.and_then(OperatorToken::new);
        OperatorAccess {
            token: token.map(|token| (token, "/data/operator.token".into())),
            socket: "/data/run/agent.sock".into(),
            ended: CancellationToken::new(),
        }
    }

    fn headers(shown: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in shown {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    /// A client may have sent a part of its request while the agent ran, and the rest when another program has the
    /// agent's address and receives the token.
    #[test]
    fn the_token_ends_before_the_agent() {
        let access = access(Some(TEXT));
        let headers = headers(&[("x-nomad-token", TEXT)]);
        for peer in NO_OPERATOR {
            assert!(access.check(peer, &headers).is_ok(), "{peer:?}");
        }
        access.ended.cancel();
        for peer in NO_OPERATOR {
            let refused = access.check(peer, &headers).unwrap_err();
            assert!(
                matches!(refused, RequestError::NotOperator { why, .. } if why.contains("has ended")),
                "{peer:?}: {refused:?}"
            );
        }
        assert!(access.check(Peer::Operator, &headers).is_ok(), "the socket");
    }

    #[test]
    fn only_the_whole_token_admits() {
        let access = access(Some(TEXT));
        let upper = TEXT.to_uppercase();
        let longer = format!("{TEXT}0");
        let inner = format!("0123 {}", &TEXT[5..]);
        let bearer = format!("Bearer {TEXT}");
        let lower_bearer = format!("bearer  {TEXT}");
        let basic = format!("Basic {TEXT}");
        for (shown, expected) in [
            (vec![], false),
            (vec![("x-nomad-token", "")], false),
            (vec![("x-nomad-token", TEXT)], true),
            (vec![("x-nomad-token", upper.as_str())], false),
            (vec![("x-nomad-token", longer.as_str())], false),
            (vec![("x-nomad-token", inner.as_str())], false),
            (vec![("x-nomad-token", &TEXT[..31])], false),
            (vec![("x-nomad-token", bearer.as_str())], false),
            (vec![("authorization", bearer.as_str())], true),
            (vec![("authorization", lower_bearer.as_str())], true),
            (vec![("authorization", basic.as_str())], false),
            (vec![("authorization", TEXT)], false),
            (vec![("authorization", "Bearer ")], false),
            (vec![("authorization", "Bea")], false),
            (vec![("x-consul-token", TEXT)], false),
            (vec![("x-vault-token", TEXT)], false),
            (vec![("cookie", TEXT)], false),
            // Two tokens, also equal ones: another program may have added one.
            (vec![("x-nomad-token", TEXT), ("x-nomad-token", TEXT)], false),
            (vec![("x-nomad-token", "x"), ("x-nomad-token", TEXT)], false),
            (vec![("x-nomad-token", TEXT), ("authorization", bearer.as_str())], false),
            (vec![("x-nomad-token", ""), ("x-nomad-token", TEXT)], true),
        ] {
            for peer in NO_OPERATOR {
                let found = access.check(peer, &headers(&shown));
                assert_eq!(found.is_ok(), expected, "{peer:?} {shown:?}");
            }
        }
    }

    #[test]
    fn without_a_token_only_the_socket_admits() {
        for text in [None, Some(""), Some("short")] {
            let access = access(text);
            for shown in [vec![], vec![("x-nomad-token", text.unwrap_or(TEXT))]] {
                for peer in NO_OPERATOR {
                    let found = access.check(peer, &headers(&shown));
                    assert!(found.is_err(), "{peer:?} {text:?}");
                }
            }
            assert_eq!(access.check(Peer::Operator, &headers(&[])), Ok(()));
        }
    }

    #[test]
    fn a_refused_client_reads_both_ways() {
        let access = access(Some(TEXT));
        let refused = |peer| access.check(peer, &headers(&[]));
        let token = "NOMAD_TOKEN=$(cat /data/operator.token)";
        let socket = "NOMAD_ADDR=unix:///data/run/agent.sock";
        for (peer, expected) in [
            (Peer::Network, vec![token, socket]),
            (Peer::Loopback, vec![token, socket]),
            (Peer::Stranger, vec![token]),
        ] {
            let Err(RequestError::NotOperator { ways, .. }) = refused(peer) else {
                panic!("{peer:?} is admitted");
            };
            assert_eq!(ways, expected, "{peer:?}");
        }
        assert_eq!(refused(Peer::Operator), Ok(()));
    }

    #[test]
    fn the_token_is_not_shown() {
        let shown = format!("{:?}", access(Some(TEXT)));
        assert!(!shown.contains("0123"), "{shown}");
    }
}

//! Headers of Nomad's API (`nomad-http-api` 2.3 to 2.5), and the one that carries secrets.

use crate::model::Secrets;

/// The ACL token.
pub const TOKEN: &str = "X-Nomad-Token";
/// Secrets of a delete, see [`secrets_header`].
pub const SECRETS: &str = "X-Nomad-CSI-Secrets";
/// Index of the table that was read, or of the write.
pub const INDEX: &str = "X-Nomad-Index";
/// Milliseconds since the leader was heard of.
pub const LAST_CONTACT: &str = "X-Nomad-LastContact";
/// Whether the server knows a leader.
pub const KNOWN_LEADER: &str = "X-Nomad-KnownLeader";
/// Where the next page begins; absent on the last.
pub const NEXT_TOKEN: &str = "X-Nomad-NextToken";
/// Our agent's version, on every answer of our agent and on none of Nomad's: by it a client knows
/// what it may ask beyond Nomad.
pub const AGENT: &str = "X-Nomad-CSI-Agent";

/// Why secrets cannot be sent in a header. Names keys only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsHeaderProblem {
    /// The header has no way to escape it.
    #[error("the key {0:?} contains `,` or `=`, which separate secrets in Nomad's header")]
    Key(String),
    /// The header has no way to escape it.
    #[error("the value of {0:?} contains `,`, which separates secrets in Nomad's header")]
    Value(String),
    /// HTTP cannot carry it.
    #[error("{0:?} has a control character or a space at its edge, which HTTP headers lose")]
    Unsendable(String),
}

/// `k1=v1,k2=v2`; empty if there are none.
///
/// # Errors
/// If the other side would read something else: the format has no escaping (2.4).
pub fn secrets_header(secrets: &Secrets) -> Result<String, SecretsHeaderProblem> {
    let mut header = String::new();
    for (key, value) in secrets.expose() {
        if key.is_empty() || key.contains([',', '=']) {
            return Err(SecretsHeaderProblem::Key(key.to_owned()));
        }
        if value.contains(',') {
            return Err(SecretsHeaderProblem::Value(key.to_owned()));
        }
        let edges = |text: &str| text.trim().len() != text.len();
        if edges(key) || edges(value) || [key, value].iter().any(|t| t.contains(char::is_control)) {
            return Err(SecretsHeaderProblem::Unsendable(key.to_owned()));
        }
        if !header.is_empty() {
            header.push(',');
        }
        header.push_str(key);
        header.push('=');
        header.push_str(value);
    }
    Ok(header)
}

/// Reads the header as Nomad does: split at `,`, then at the first `=`; a piece without `=` is
/// dropped, and the last of a key wins.
pub fn parse_secrets_header(header: &str) -> Secrets {
    header
        .split(',')
        .filter_map(|piece| piece.split_once('='))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secrets_header_reads_back() {
        let secrets = Secrets::from_iter([("password", "a=b c/ü"), ("user", ""), ("z", "==")]);
        let header = secrets_header(&secrets).expect("it can be sent");
        assert_eq!(header, "password=a=b c/ü,user=,z===");
        assert!(parse_secrets_header(&header) == secrets);
    }

    #[test]
    fn a_header_is_read_as_nomad_reads_it() {
        for (header, expected) in [
            ("", vec![]),
            ("a", vec![]),
            ("a=1,b,a=2", vec![("a", "2")]),
            ("a=b=c", vec![("a", "b=c")]),
        ] {
            assert!(
                parse_secrets_header(header) == Secrets::from_iter(expected),
                "{header}"
            );
        }
    }

    #[test]
    fn what_would_arrive_changed_is_not_sent() {
        use SecretsHeaderProblem::{Key, Unsendable, Value};
        for (key, value, expected) in [
            ("a,b", "x", Key("a,b".into())),
            ("a=b", "x", Key("a=b".into())),
            ("", "x", Key(String::new())),
            ("a", "x,y", Value("a".into())),
            ("a", "x\n", Unsendable("a".into())),
            ("a", " x", Unsendable("a".into())),
        ] {
            let secrets = Secrets::from_iter([(key, value)]);
            assert_eq!(secrets_header(&secrets), Err(expected), "{key:?} {value:?}");
        }
    }
}

//! HTTP headers of Nomad's API, and the header with secrets.

use nomad_csi_model::Secrets;

/// The ACL token.
pub const TOKEN: &str = "X-Nomad-Token";
/// The secrets of a delete request, see [`secrets_header`].
pub const SECRETS: &str = "X-Nomad-CSI-Secrets";
/// The index of the table that was read, or of the write.
pub const INDEX: &str = "X-Nomad-Index";
/// Time since the last contact with the leader in milliseconds.
pub const LAST_CONTACT: &str = "X-Nomad-LastContact";
/// The header that says if the server has a leader.
pub const KNOWN_LEADER: &str = "X-Nomad-KnownLeader";
/// The token of the next page; missing on the last page.
pub const NEXT_TOKEN: &str = "X-Nomad-NextToken";
/// The version of the embedded agent. Nomad never sends this header, so a client detects the agent
/// and its additional features by it.
pub const AGENT: &str = "X-Nomad-CSI-Agent";

/// Why secrets cannot be sent in a header. Contains keys only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsHeaderProblem {
    /// The header format cannot escape a character of the key.
    #[error("the key {0:?} contains `,` or `=`, which separate secrets in Nomad's header")]
    Key(String),
    /// The header format cannot escape a character of the value.
    #[error("the value of {0:?} contains `,`, which separates secrets in Nomad's header")]
    Value(String),
    /// HTTP cannot transfer the key or the value.
    #[error(
        "{0:?} has a control character, or a space at its start or end, which HTTP headers lose"
    )]
    Unsendable(String),
}

/// Formats secrets as `k1=v1,k2=v2`; empty without secrets.
///
/// # Errors
/// Fails if Nomad would parse other secrets, because the format has no escaping.
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

/// Parses the header as Nomad does: splits at `,`, then at the first `=`. Ignores a part without `=`.
/// The last value of a key wins.
pub fn parse_secrets_header(header: &str) -> Secrets {
    header.split(',').filter_map(|piece| piece.split_once('=')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secrets_header_round_trips() {
        let secrets = Secrets::from_iter([("password", "a=b c/ü"), ("user", ""), ("z", "==")]);
        let header = secrets_header(&secrets).expect("the secrets cannot be sent");
        assert_eq!(header, "password=a=b c/ü,user=,z===");
        assert!(parse_secrets_header(&header) == secrets);
    }

    #[test]
    fn a_header_parses_as_in_nomad() {
        for (header, expected) in [
            ("", vec![]),
            ("a", vec![]),
            ("a=1,b,a=2", vec![("a", "2")]),
            ("a=b=c", vec![("a", "b=c")]),
        ] {
            assert!(parse_secrets_header(header) == Secrets::from_iter(expected), "{header}");
        }
    }

    #[test]
    fn secrets_that_would_change_in_transit_are_refused() {
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

//! What the token may do, asked of the server and held against what is needed.
//!
//! Done before anything is changed, so that a server's "Permission denied" does not come in the middle
//! of an apply. What cannot be known blocks nothing: a workload's identity, a policy that cannot be
//! read, a server or a proxy that does not answer such questions. The server has the last word.

use crate::diagnostic::{Code, Diagnostic};
use crate::plan::{Grants, RequiredPermissions, missing_permissions};
use crate::ports::{AccessReader, ApiError, Policy, TokenKind};
use crate::spec::acl_policy;

/// Whose token it is, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whose token it is.
    pub owner: TokenKind,
    /// What it may do.
    pub grants: Grants,
}

/// Asks what the token may do.
///
/// # Errors
/// If the server cannot be asked, or does not know the token.
pub async fn access(reader: &dyn AccessReader) -> Result<Access, ApiError> {
    let owner = reader.token().await?;
    let grants = match &owner {
        TokenKind::AclDisabled | TokenKind::Management { .. } => Grants::Everything,
        TokenKind::Workload => Grants::Unknown,
        TokenKind::Client { .. } => granted(&reader.policies().await?),
    };
    Ok(Access { owner, grants })
}

fn granted(policies: &[Policy]) -> Grants {
    let read: Result<Vec<_>, _> = policies
        .iter()
        .map(|policy| acl_policy(&policy.rules))
        .collect();
    read.map_or(Grants::Unknown, Grants::of)
}

/// What is known of a token before anything is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preflight {
    /// It may do everything that is needed.
    Granted,
    /// It may not: why, with a policy to paste.
    Missing(Box<Diagnostic>),
    /// It cannot be known: why.
    Unknown(String),
}

/// Whether the token may do what is needed. For commands that are about to change something.
///
/// # Errors
/// If the server does not know the token, or cannot be reached.
pub async fn preflight(
    reader: &dyn AccessReader,
    needs: &RequiredPermissions,
) -> Result<Preflight, ApiError> {
    let found = match access(reader).await {
        Ok(found) => found,
        Err(error) if does_not_answer(&error) => return Ok(Preflight::Unknown(error.message)),
        Err(error) => return Err(error),
    };
    if let Some(missing) = missing_permissions(needs, &found.grants) {
        return Ok(Preflight::Missing(Box::new(missing)));
    }
    Ok(match (found.grants, found.owner) {
        (Grants::Everything | Grants::Rules(_), _) => Preflight::Granted,
        (Grants::Unknown, TokenKind::Workload) => {
            Preflight::Unknown("it is a workload's identity".to_owned())
        }
        (Grants::Unknown, _) => {
            Preflight::Unknown("one of its policies cannot be understood".to_owned())
        }
    })
}

/// Whether a server, or a proxy before it, refuses the question and maybe not what comes after. Who
/// asks without a token is refused with 500 (as Nomad 1.3.16 to 1.9.5 answered), and may be let do
/// everything by the anonymous policy.
fn does_not_answer(error: &ApiError) -> bool {
    let is_about_token = error.code == Code::ApiUnknownToken;
    let refused = matches!(error.status, Some(400 | 403 | 404 | 405 | 501));
    error.code == Code::ApiForbidden || (refused && !is_about_token)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use async_trait::async_trait;

    use super::*;
    use crate::model::Namespace;
    use crate::plan::AclOperation;

    struct Server(Result<TokenKind, ApiError>, Vec<&'static str>);

    #[async_trait]
    impl AccessReader for Server {
        async fn token(&self) -> Result<TokenKind, ApiError> {
            self.0.clone()
        }

        async fn policies(&self) -> Result<Vec<Policy>, ApiError> {
            let policy = |rules: &&str| Policy {
                name: "some".into(),
                rules: (*rules).into(),
            };
            Ok(self.1.iter().map(policy).collect())
        }

        async fn namespaces(&self) -> Result<BTreeSet<Namespace>, ApiError> {
            Ok(BTreeSet::new())
        }
    }

    fn client() -> Result<TokenKind, ApiError> {
        Ok(TokenKind::Client {
            name: "deploy".into(),
            policies: ["some".to_owned()].into(),
        })
    }

    fn error(code: Code, status: u16) -> Result<TokenKind, ApiError> {
        Err(ApiError {
            code,
            status: Some(status),
            message: "it said no".into(),
            help: vec![],
            server_text: None,
        })
    }

    /// What a token lacks is known before; what cannot be known blocks nothing.
    #[tokio::test]
    async fn only_what_is_known_to_be_missing_blocks() {
        const READ: &str = "namespace \"default\" { policy = \"read\" }";
        const WRITE: &str = "namespace \"default\" { policy = \"write\" }";
        const PLUGIN: &str = "plugin { policy = \"read\" }";
        let management = Ok(TokenKind::Management { name: "m".into() });
        let mut needs = RequiredPermissions::default();
        needs.add(AclOperation::Write, &Namespace::default());
        for (owner, rules, expected) in [
            (Ok(TokenKind::AclDisabled), vec![], Ok(false)),
            (management, vec![], Ok(false)),
            (Ok(TokenKind::Workload), vec![], Ok(false)),
            (client(), vec![], Ok(true)),
            (client(), vec![WRITE], Ok(true)),
            (client(), vec![READ, PLUGIN], Ok(true)),
            (client(), vec![WRITE, PLUGIN], Ok(false)),
            (client(), vec!["namespace {"], Ok(false)),
            (error(Code::ApiForbidden, 403), vec![], Ok(false)),
            (error(Code::ApiForbidden, 500), vec![], Ok(false)),
            (
                error(Code::ApiUnknownToken, 403),
                vec![],
                Err(Code::ApiUnknownToken),
            ),
            (
                error(Code::ApiServerError, 500),
                vec![],
                Err(Code::ApiServerError),
            ),
        ] {
            let shown = format!("{owner:?} {rules:?}");
            let found = preflight(&Server(owner, rules), &needs).await;
            let found = found.map(|found| matches!(found, Preflight::Missing(_)));
            assert_eq!(found.map_err(|error| error.code), expected, "{shown}");
        }
    }
}

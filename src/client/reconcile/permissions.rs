//! Compares the token's permissions with what a plan requires.
//!
//! The check runs before anything is changed, so that an apply does not fail halfway. Unknown permissions
//! block nothing: a workload identity, a policy that cannot be read, or a server that does not answer.

use crate::ports::{AccessReader, ApiError, Policy, TokenKind};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_plan::{Grants, RequiredPermissions, missing_permissions};
use nomad_csi_spec::acl_policy;

/// The kind of the token, and its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The kind of the token.
    pub owner: TokenKind,
    /// Its permissions.
    pub grants: Grants,
}

impl Access {
    /// Returns the error for missing permissions; `None` if none is known to be missing.
    pub fn missing(&self, needs: &RequiredPermissions) -> Option<Diagnostic> {
        let (holder, remedy) = match self.owner {
            TokenKind::Anonymous => (
                "a request without a token",
                "set NOMAD_TOKEN or --token to a token that has a policy with these rules",
            ),
            TokenKind::AclDisabled
            | TokenKind::Management { .. }
            | TokenKind::Client { .. }
            | TokenKind::Workload => ("the token", "attach a policy with these rules to the token"),
        };
        missing_permissions(needs, &self.grants, (holder, remedy))
    }
}

/// Reads the token's permissions.
///
/// # Errors
/// If the server cannot be reached, or does not know the token.
pub async fn access(reader: &dyn AccessReader) -> Result<Access, ApiError> {
    let owner = reader.token().await?;
    let grants = match &owner {
        TokenKind::AclDisabled | TokenKind::Management { .. } => Grants::Everything,
        TokenKind::Workload => Grants::Unknown,
        TokenKind::Client { .. } | TokenKind::Anonymous => granted(&reader.policies().await?),
    };
    Ok(Access { owner, grants })
}

fn granted(policies: &[Policy]) -> Grants {
    let read: Result<Vec<_>, _> = policies.iter().map(|policy| acl_policy(&policy.rules)).collect();
    read.map_or(Grants::Unknown, Grants::of)
}

/// The result of a permission check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Preflight {
    /// The token has every required permission.
    Granted,
    /// A permission is missing. Holds the reason and the policy to add.
    Missing(Box<Diagnostic>),
    /// The permissions are unknown. Holds the reason.
    Unknown(String),
}

/// Checks whether the token has the required permissions.
///
/// # Errors
/// If the server does not know the token, or cannot be reached.
pub(super) async fn preflight(
    reader: &dyn AccessReader,
    needs: &RequiredPermissions,
) -> Result<Preflight, ApiError> {
    let found = match access(reader).await {
        Ok(found) => found,
        Err(error) if cannot_be_checked(&error) => return Ok(Preflight::Unknown(error.message)),
        Err(error) => return Err(error),
    };
    if let Some(missing) = found.missing(needs) {
        return Ok(Preflight::Missing(Box::new(missing)));
    }
    Ok(match (found.grants, found.owner) {
        (Grants::Everything | Grants::Rules(_), _) => Preflight::Granted,
        (Grants::Unknown, TokenKind::Workload) => {
            Preflight::Unknown("the token is a workload identity".to_owned())
        }
        (Grants::Unknown, _) => {
            Preflight::Unknown("a policy of the token cannot be parsed".to_owned())
        }
    })
}

/// Returns whether a server or a proxy refuses the check, but may accept the changes. Nomad 1.3.16 to 1.9.5
/// refuse a request without a token with status 500, although the anonymous policy may allow it.
fn cannot_be_checked(error: &ApiError) -> bool {
    let is_about_token = error.code == Code::ApiUnknownToken;
    let refused = matches!(error.status, Some(400 | 403 | 404 | 405 | 501));
    error.code == Code::ApiForbidden || (refused && !is_about_token)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use async_trait::async_trait;

    use super::*;
    use nomad_csi_model::Namespace;
    use nomad_csi_plan::AclOperation;

    struct Server(Result<TokenKind, ApiError>, Vec<&'static str>);

    #[async_trait]
    impl AccessReader for Server {
        async fn token(&self) -> Result<TokenKind, ApiError> {
            self.0.clone()
        }

        async fn policies(&self) -> Result<Vec<Policy>, ApiError> {
            let policy = |rules: &&str| Policy { name: "some".into(), rules: (*rules).into() };
            Ok(self.1.iter().map(policy).collect())
        }

        async fn namespaces(&self) -> Result<BTreeSet<Namespace>, ApiError> {
            Ok(BTreeSet::new())
        }
    }

    fn client() -> Result<TokenKind, ApiError> {
        Ok(TokenKind::Client { name: "deploy".into(), policies: ["some".to_owned()].into() })
    }

    fn error(code: Code, status: u16) -> Result<TokenKind, ApiError> {
        Err(ApiError::new(code, "refused").status(status))
    }

    /// Missing permissions block; unknown ones do not.
    #[tokio::test]
    async fn only_missing_permissions_block() {
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
            (error(Code::ApiUnknownToken, 403), vec![], Err(Code::ApiUnknownToken)),
            (error(Code::ApiServerError, 500), vec![], Err(Code::ApiServerError)),
        ] {
            let shown = format!("{owner:?} {rules:?}");
            let found = preflight(&Server(owner, rules), &needs).await;
            let found = found.map(|found| matches!(found, Preflight::Missing(_)));
            assert_eq!(found.map_err(|error| error.code), expected, "{shown}");
        }
    }
}

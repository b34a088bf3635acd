//! Detects whether a server is Nomad or the embedded agent.
//!
//! The embedded agent sends the header [`AGENT`] with every response. `/v1/regions` reads it,
//! because every Nomad has that endpoint and it needs no token. A server without the header counts
//! as Nomad.

use http::Method;

use super::request::ApiRequest;
use super::session::Session;
use crate::ports::{ApiError, ServerKind};
use nomad_csi_model::ServerVersion;
use nomad_csi_wire::{AGENT, AgentSelf};

/// Reads whether the server is the embedded agent.
pub(super) async fn read_is_agent(session: &Session, action: &str) -> Result<bool, ApiError> {
    let regions = ApiRequest::new(Method::GET, &["regions"]);
    let headers = session.headers(&regions, action).await?;
    Ok(headers.contains_key(AGENT))
}

/// Reads which server responds, and its version. Nomad reports the version only to a token with
/// `agent:read`, and it is the version of the agent that responds, not of the leader.
pub(super) async fn read_server_kind(session: &Session) -> Result<ServerKind, ApiError> {
    let action = "read the server's version";
    if read_is_agent(session, action).await? {
        return Ok(ServerKind::Agent);
    }
    let about = ApiRequest::new(Method::GET, &["agent", "self"]);
    match session.read::<AgentSelf>(&about, action).await {
        Ok((about, _)) => {
            let text = about.config.version.to_string();
            match ServerVersion::parse(&text) {
                Ok(version) => Ok(ServerKind::Nomad(version)),
                Err(_) => Err(session.unexpected_object(action, &text)),
            }
        }
        // Proxies in front of a cluster often do not forward the agents' own endpoints.
        Err(error) if matches!(error.status, Some(403 | 404 | 405 | 501)) => {
            Ok(ServerKind::NomadUnknownVersion)
        }
        Err(error) => Err(error),
    }
}

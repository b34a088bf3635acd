//! Detects whether a server is Nomad or the embedded agent.
//!
//! The embedded agent sends the header [`AGENT`] with every response. `/v1/regions` reads it,
//! because every Nomad has that endpoint and it needs no token. A server without the header counts
//! as Nomad.

use http::{HeaderMap, Method};

use super::request::ApiRequest;
use super::session::Session;
use crate::model::ServerVersion;
use crate::ports::{ApiError, ServerKind};
use crate::wire::{AGENT, AgentSelf};

/// Reads which server responds, and its version. Nomad reports the version only to a token with
/// `agent:read`, and it is the version of the agent that responds, not of the leader.
pub(super) async fn read_server_kind(session: &Session) -> Result<ServerKind, ApiError> {
    let regions = ApiRequest::new(Method::GET, &["regions"]);
    let action = "read the server's version";
    let headers = session.headers(&regions, action).await?;
    if is_embedded_agent(&headers) {
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

fn is_embedded_agent(headers: &HeaderMap) -> bool {
    headers.contains_key(AGENT)
}

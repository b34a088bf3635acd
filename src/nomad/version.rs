//! Who answers: a Nomad or our own agent, and what follows from it.
//!
//! Our agent names itself in a header of every answer ([`AGENT`]). It is looked for on
//! `/v1/regions`, which needs no token (`nomad-neighbour-apis`) and which every Nomad has. Without
//! the header, whatever answered is treated as a Nomad, which promises least.

use http::{HeaderMap, Method};

use super::endpoint::Request;
use super::session::Session;
use crate::model::ServerVersion;
use crate::ports::{ApiError, ServerKind};
use crate::wire::{AGENT, AgentSelf};

/// Who answers, and of which version it is (`nomad-neighbour-apis` 4.1). A Nomad says that only to a
/// token that may read agents, and of the agent that was asked, which may be older or newer than
/// the leader.
pub(super) async fn server(session: &Session) -> Result<ServerKind, ApiError> {
    let regions = Request::new(Method::GET, &["regions"]);
    let what = "the server's version could not be read";
    let headers = session.headers(&regions, what).await?;
    if Server::of(&headers) == Server::Agent {
        return Ok(ServerKind::Agent);
    }
    let about = Request::new(Method::GET, &["agent", "self"]);
    match session.read::<AgentSelf>(&about, what).await {
        Ok((about, _)) => {
            let text = about.config.version.to_string();
            match ServerVersion::parse(&text) {
                Ok(version) => Ok(ServerKind::Nomad(version)),
                Err(_) => Err(session.another(what, &text)),
            }
        }
        // Proxies in front of a cluster often do not pass on what is the agents' own.
        Err(error) if matches!(error.status, Some(403 | 404 | 405 | 501)) => {
            Ok(ServerKind::Undisclosed)
        }
        Err(error) => Err(error),
    }
}

/// Whose API it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// A Nomad of any version, or something that looks like one.
    Nomad,
    /// Our agent.
    Agent,
}

impl Server {
    /// Who gave an answer with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(AGENT) {
            Self::Agent
        } else {
            Self::Nomad
        }
    }
}

//! What a server is among several: the one that leads, or one that follows it.
//!
//! | Endpoint | The leader | A standby |
//! | --- | --- | --- |
//! | about the server | answers | answers |
//! | of the state | answers while its lease is certain | has everything that was acknowledged before the request, then answers; with `stale` at once |
//! | all others | answers while its lease is certain | forwards the request to the leader, once |
//!
//! A read of the leader waits for a write that is under way: a standby may have shown its change already, and no client sees a
//! change come and go.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::extract::Request;
use axum::response::Response;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONNECTION, TE, TRANSFER_ENCODING, UPGRADE};
use tokio::time::timeout;

use super::endpoints::{Answers, Route};
use super::forwarded::{FORWARDED, forwarded_for};
use super::parameters::Parameters;
use super::reply::Uncompressed;
use crate::cell::FollowedState;
use crate::error::ServerError;
use crate::services::Services;
use nomad_csi_wire::{TOKEN, parse_boolean};

/// How old the rights of a client may be that takes an old state.
const STALEST_RIGHTS: Duration = Duration::from_secs(60);
/// How often a read that waits for a write looks whether this server is still the leader.
const LEASE_CHECKED: Duration = Duration::from_millis(500);

/// What a server is among several.
#[derive(Clone)]
pub enum ServerRole {
    /// It leads, or is the only one.
    Leader {
        /// Whether others show the state, too.
        has_standbys: bool,
    },
    /// It follows the one that leads.
    Standby(Standby),
}

/// A server that follows the one that leads.
#[derive(Clone)]
pub struct Standby {
    /// The state of the leader.
    pub state: FollowedState,
    /// The way to the leader.
    pub leader: Arc<dyn LeaderLink>,
}

/// The way to the server that leads.
#[async_trait]
pub trait LeaderLink: Send + Sync {
    /// Returns whether a server leads, as far as is known.
    fn has_leader(&self) -> bool;

    /// Sends a request once, and returns the response as it arrives.
    ///
    /// # Errors
    /// If there is no response.
    async fn send(&self, request: Request) -> Result<Response, NotForwarded>;
}

/// Who sent a request that is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForwardedSender {
    /// The operator of this server: the leader does not know that user.
    Operator,
    /// The bearer of a token of the ACL, or a client without one.
    Bearer,
    /// A client of a cluster without an ACL.
    Anyone,
}

/// A request has no response of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotForwarded {
    /// It was not sent.
    NotSent(String),
    /// It was sent.
    Unanswered(String),
}

impl ServerRole {
    /// Returns how long ago this server had everything that the leader had acknowledged, and whether a server leads, as far as
    /// is known.
    pub(super) fn contact(&self) -> (Duration, bool) {
        match self {
            Self::Leader { .. } => (Duration::ZERO, true),
            Self::Standby(standby) => (standby.state.since_current(), standby.leader.has_leader()),
        }
    }

    /// Lets a request in, when what it reads is not older than it.
    ///
    /// # Errors
    /// If that is not certain.
    pub(super) async fn admit(
        &self,
        services: &Services,
        route: &Route,
        parameters: &Parameters,
    ) -> Result<(), ServerError> {
        let answers = route.answers();
        match self {
            _ if answers == Answers::Own => Ok(()),
            Self::Leader { has_standbys } => {
                services.leads()?;
                if *has_standbys {
                    // Without etcd a write may never end, and the lease does.
                    while timeout(LEASE_CHECKED, services.cell.settled()).await.is_err() {
                        services.leads()?;
                    }
                }
                Ok(())
            }
            Self::Standby(standby) if is_stale(parameters) && standby.may_be_stale(services) => {
                Ok(())
            }
            Self::Standby(standby) => standby
                .state
                .wait_until_current()
                .await
                .map_err(|error| ServerError::NoAnswerOfLeader(error.to_string())),
        }
    }

    /// Checks that what was read counts.
    ///
    /// # Errors
    /// If another server may lead by now, so that it may be old.
    pub(super) fn check_read(&self, services: &Services, route: &Route) -> Result<(), ServerError> {
        match (self, route.answers()) {
            (Self::Leader { .. }, Answers::State | Answers::Leader) => services.leads(),
            (Self::Leader { .. }, Answers::Own) | (Self::Standby(_), _) => Ok(()),
        }
    }
}

/// Returns whether the client takes a state that may be old.
fn is_stale(parameters: &Parameters) -> bool {
    parameters
        .get("stale")
        .is_some_and(|value| value.is_empty() || parse_boolean(value) == Some(true))
}

impl Standby {
    /// Returns whether a state of this age may be read. With an ACL, what was revoked long ago must not count.
    fn may_be_stale(&self, services: &Services) -> bool {
        !services.acl.is_enabled() || self.state.since_current() <= STALEST_RIGHTS
    }

    /// Forwards a request.
    ///
    /// # Errors
    /// If there is no response. A write whose answer is lost may have been carried out.
    pub(super) async fn forward(
        &self,
        mut request: Request,
        sender: ForwardedSender,
        is_read: bool,
    ) -> Result<Response, ServerError> {
        let headers = request.headers_mut();
        remove_hop_headers(headers);
        match sender {
            // The leader looks up the token of the ACL.
            ForwardedSender::Bearer => {}
            // The leader believes this server, and has a token of its own.
            ForwardedSender::Operator | ForwardedSender::Anyone => {
                headers.remove(TOKEN);
                headers.remove(AUTHORIZATION);
            }
        }
        headers.insert(FORWARDED, forwarded_for(sender == ForwardedSender::Operator));
        request.extensions_mut().clear();
        match self.leader.send(request).await {
            Ok(mut response) => {
                remove_hop_headers(response.headers_mut());
                response.extensions_mut().insert(Uncompressed);
                Ok(response)
            }
            Err(NotForwarded::Unanswered(reason)) if !is_read => {
                tracing::warn!(
                    reason,
                    "the leader did not answer a request that was forwarded to it"
                );
                Err(ServerError::LeaderLost)
            }
            Err(NotForwarded::NotSent(reason) | NotForwarded::Unanswered(reason)) => {
                Err(ServerError::NoAnswerOfLeader(reason))
            }
        }
    }
}

/// Removes what is about a connection and not about the message.
fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in [CONNECTION, TE, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

#[cfg(test)]
mod tests;

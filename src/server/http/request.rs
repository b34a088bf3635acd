//! A decoded HTTP request: services, query, headers and body.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body::ReceivedBody;
use super::connection_slots::Connection;
use super::credentials::Credentials;
use super::kept_lists::KeptLists;
use super::parameters::Parameters;
use crate::error::{RequestError, ServerError};
use crate::services::Services;
use nomad_csi_model::Secrets;
use nomad_csi_wire::{DecodeLimits, SECRETS, decode_bounded, parse_secrets_header};

/// Lists of this length are encoded few at a time (`limits`), and on a blocking thread.
pub(super) const LONG_LIST: usize = 256;
/// The longest time to wait for other long lists to be encoded.
const LONG_LIST_WAIT: Duration = Duration::from_secs(30);

/// A request as handlers see it.
pub(super) struct IncomingRequest {
    pub(super) services: Services,
    pub(super) parameters: Parameters,
    pub(super) headers: HeaderMap,
    /// The body of a write; empty for a read.
    pub(super) body: ReceivedBody,
    /// The limits of the body's JSON.
    pub(super) decode_limits: DecodeLimits,
    /// Where the request came from.
    pub(super) connection: Connection,
    /// Who sends it.
    pub(super) credentials: Credentials,
    /// Why it is not from the operator of the agent, if it is not.
    pub(super) operator: Result<(), RequestError>,
    /// The permits of long lists that are being encoded.
    pub(super) long_lists: Arc<Semaphore>,
    /// The texts that lists of volumes are made of.
    pub(super) kept_lists: Arc<KeptLists>,
    /// True if a blocking query has waited already, and its response is read again.
    pub(super) has_waited: bool,
    /// True if a long response is compressed.
    pub(super) is_compressed: bool,
    /// True if the client wants indented JSON.
    pub(super) pretty: bool,
}

impl IncomingRequest {
    /// Decodes the JSON document in the body.
    pub(super) fn document<T: DeserializeOwned>(&self) -> Result<T, ServerError> {
        if self.body.bytes.is_empty() {
            return Err(RequestError::EmptyBody.into());
        }
        decode_bounded(&self.body.bytes, self.decode_limits)
            .map_err(|error| RequestError::Body(error.to_string()).into())
    }

    /// Waits for a permit to encode a long list.
    pub(super) async fn long_list(&self) -> Result<OwnedSemaphorePermit, ServerError> {
        let permit = self.long_lists.clone().acquire_owned();
        match tokio::time::timeout(LONG_LIST_WAIT, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(RequestError::ListsBusy.into()),
        }
    }

    /// The secrets in the header of a request without a body.
    pub(super) fn secrets(&self) -> Secrets {
        let header = self.headers.get(SECRETS);
        let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()));
        header.map_or_else(Secrets::default, |text| parse_secrets_header(&text))
    }
}

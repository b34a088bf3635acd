//! A decoded HTTP request: services, query, headers and body.

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::StreamExt as _;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use serde::de::DeserializeOwned;

use super::parameters::Parameters;
use crate::model::Secrets;
use crate::server::error::{RequestError, ServerError};
use crate::server::services::Services;
use crate::wire::{SECRETS, decode, parse_secrets_header};

/// The largest body in bytes. A specification has at most 16 MiB, and JSON is longer.
pub const MAX_BODY: usize = 64 << 20;

/// The longest time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(120);

/// A request as handlers see it.
pub(super) struct ApiRequest {
    pub(super) services: Services,
    pub(super) parameters: Parameters,
    pub(super) headers: HeaderMap,
    /// The body of a write; empty for a read.
    pub(super) body: Bytes,
    /// Whether the client wants indented JSON.
    pub(super) pretty: bool,
}

impl ApiRequest {
    /// Decodes the JSON document in the body.
    pub(super) fn document<T: DeserializeOwned>(&self) -> Result<T, ServerError> {
        if self.body.is_empty() {
            return Err(RequestError::EmptyBody.into());
        }
        decode(&self.body).map_err(|error| RequestError::Body(error.to_string()).into())
    }

    /// The secrets in the header of a request without a body.
    pub(super) fn secrets(&self) -> Secrets {
        let header = self.headers.get(SECRETS);
        let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()));
        header.map_or_else(Secrets::default, |text| parse_secrets_header(&text))
    }
}

/// Reads the whole body, within the limits of size and time.
pub(super) async fn read_body(headers: &HeaderMap, body: Body) -> Result<Bytes, ServerError> {
    let announced = headers.get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let too_large = || ServerError::from(RequestError::BodyTooLarge { limit: MAX_BODY });
    if announced.is_some_and(|length| length > MAX_BODY) {
        return Err(too_large());
    }
    let lost = |why: String| ServerError::from(RequestError::BodyLost(why));
    let mut received = vec![];
    let mut chunks = body.into_data_stream();
    let arrive = async {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| lost(error.to_string()))?;
            if received.len() + chunk.len() > MAX_BODY {
                return Err(too_large());
            }
            received.extend_from_slice(&chunk);
        }
        Ok(())
    };
    match tokio::time::timeout(BODY_TIMEOUT, arrive).await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(lost(format!("not within {} s", BODY_TIMEOUT.as_secs()))),
    }
    Ok(received.into())
}

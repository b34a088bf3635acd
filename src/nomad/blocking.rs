//! Blocking queries: a server holds the answer back until something changed (`nomad-http-api` 2.8,
//! `nomad-neighbour-apis` 0.5).
//!
//! A server holds a request for at most the time asked for and a sixteenth more, by chance; it is
//! waited for a little longer than that. An index of 0 would not block and is made 1; one that went
//! back means that the server's state was restored, and the wait begins anew from what it says.
//! Where everything is answered (pages would be answered one by one), nothing is paged.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, Method};

use super::client::{NomadClient, addressable, list_parameters, wanted};
use super::endpoint::Request;
use crate::diagnostic::Code;
use crate::model::{NamespacedId, Volume, VolumeSummary};
use crate::ports::{ApiError, Reading, VolumeQuery, VolumeWatch, WaitFor, Watched};
use crate::wire::{self, INDEX, VolumeDocument, VolumeStub};

/// The longest that a server waits.
const LONGEST: Duration = Duration::from_secs(300);
/// What is waited for an answer beside the wait itself.
const MARGIN: Duration = Duration::from_secs(60);

/// A wait as it is asked for.
struct Wait {
    index: Option<String>,
    wait: String,
    patience: Duration,
}

impl Wait {
    fn of(wait: WaitFor) -> Self {
        let at_most = wait.at_most.min(LONGEST);
        let held = match wait.index {
            Some(_) => at_most + at_most / 16,
            None => Duration::ZERO,
        };
        Self {
            index: wait.index.map(|index| index.max(1).to_string()),
            wait: format!("{}ms", at_most.as_millis()),
            patience: held + MARGIN,
        }
    }

    fn add_to<'a>(&'a self, request: &mut Request<'a>) {
        if let Some(index) = &self.index {
            request.query.push(("index", index));
            request.query.push(("wait", &self.wait));
        }
        request.patience = Some(self.patience);
    }
}

/// What an answer says beside its value.
fn watched<T>(value: T, headers: &HeaderMap, wait: WaitFor) -> Watched<T> {
    let index = headers.get(INDEX).and_then(|index| index.to_str().ok());
    let index = index.and_then(|index| index.trim().parse().ok());
    let index = index.unwrap_or(1_u64).max(1);
    Watched {
        value,
        index,
        changed: wait.index.is_none_or(|before| before.max(1) != index),
    }
}

#[async_trait]
impl VolumeWatch for NomadClient {
    async fn watch_volumes(
        &self,
        query: &VolumeQuery,
        wait: WaitFor,
    ) -> Result<Watched<Vec<Reading<VolumeSummary>>>, ApiError> {
        let asked = Wait::of(wait);
        let mut get = Request {
            query: list_parameters(query),
            ..Request::new(Method::GET, &["volumes"])
        };
        asked.add_to(&mut get);
        let what = "the volumes could not be watched";
        let (listed, headers) = self.session.list_once::<VolumeStub>(&get, what).await?;
        let mut volumes = BTreeMap::new();
        for (stub, document) in listed {
            let value = wire::summary_from_wire(&stub);
            if wanted(query, &value) {
                let key = (value.namespace.clone(), value.id.clone());
                volumes.insert(key, Reading { value, document });
            }
        }
        Ok(watched(volumes.into_values().collect(), &headers, wait))
    }

    async fn watch_volume(
        &self,
        key: &NamespacedId,
        wait: WaitFor,
    ) -> Result<Watched<Option<Reading<Volume>>>, ApiError> {
        let what = format!("volume {key} could not be watched");
        addressable(key.id.as_str(), &what)?;
        let asked = Wait::of(wait);
        let path = ["volume", "csi", key.id.as_str()];
        let mut get = Request {
            query: vec![("namespace", key.namespace.as_str())],
            ..Request::new(Method::GET, &path)
        };
        asked.add_to(&mut get);
        let (found, headers) = self
            .session
            .find_with_headers::<VolumeDocument>(&get, &what, Code::VolumeNotFound)
            .await?;
        let value = match found {
            Some((volume, _)) if volume.id != key.id.as_str() => {
                return Err(self.session.another(&what, &volume.id));
            }
            Some((volume, document)) => Some(Reading {
                value: wire::volume_from_wire(&volume),
                document,
            }),
            None => None,
        };
        Ok(watched(value, &headers, wait))
    }
}

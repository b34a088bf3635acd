//! [`NomadClient`]: volumes and plugins over Nomad's HTTP API, be it a cluster's or our agent's.
//!
//! Every write is one request, sent at most once unless the server refused it before it did anything
//! (`nomad-http-api` 10.1 point 11). Namespaces go into the query and into the body, equal (point
//! 1). Lists are read page by page, filtered here again because servers ignore some of what they
//! are asked (3.1), and sorted. What a server should have hidden and did not (1.1 and 1.2 answer a
//! create with the secrets, 8.2) is hidden here, also in the documents that are handed on; and a
//! secret that was sent is taken out of the words of an error.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use http::{HeaderValue, Method};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::endpoint::{Answer, Endpoint, Request};
use super::reply::{self, Asked};
use super::retrying::{Access, attempt};
use super::settings::Settings;
use super::version::Server;
use crate::diagnostic::Code;
use crate::model::{
    IdProblem, MountOptions, Namespace, NamespacedId, Plugin, PluginId, PluginSummary, Secrets,
    Volume, VolumeRequest, VolumeSummary,
};
use crate::plan::MergeRules;
use crate::ports::{ApiError, Reading, VolumeApi, VolumeQuery, Written};
use crate::wire::{
    self, NEXT_TOKEN, PluginDocument, PluginStub, SECRETS, VolumeDocument, VolumeStub, WriteKind,
    WriteRequest, WriteResponse,
};

/// Volumes per page; servers before 1.3 answer all at once.
const PER_PAGE: &str = "2000";

/// A client of one server.
#[derive(Debug)]
pub struct NomadClient {
    endpoint: Endpoint,
}

impl NomadClient {
    /// A client with these settings. Nothing is read or opened before the first call.
    ///
    /// # Errors
    /// If the address is not one.
    pub fn new(settings: &Settings) -> Result<Self, ApiError> {
        Ok(Self {
            endpoint: Endpoint::new(settings)?,
        })
    }

    async fn call(
        &self,
        request: &Request<'_>,
        what: &str,
        access: Access,
    ) -> Result<Answer, ApiError> {
        let asked = self.asked(what, access);
        attempt(access, || async {
            let answer = self.endpoint.send(request, access, what).await?;
            reply::success(answer, asked)
        })
        .await
    }

    fn asked<'a>(&'a self, what: &'a str, access: Access) -> Asked<'a> {
        Asked {
            what,
            access,
            server: self.endpoint.name(),
            has_token: self.endpoint.has_token(),
        }
    }

    /// Reads a document and keeps its JSON.
    async fn read<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        what: &str,
    ) -> Result<(T, Value), ApiError> {
        let answer = self.call(request, what, Access::Read).await?;
        let asked = self.asked(what, Access::Read);
        let mut json = reply::json(&answer, asked)?;
        hide_what_is_secret(&mut json);
        let document =
            wire::decode_value(&json).map_err(|error| reply::other_document(&error, asked))?;
        Ok((document, json))
    }

    /// Reads a document that may be missing.
    async fn find<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        what: &str,
        missing: Code,
    ) -> Result<Option<(T, Value)>, ApiError> {
        match self.read(request, what).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == missing && error.status == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, request: &VolumeRequest, kind: WriteKind) -> Result<Written, ApiError> {
        let key = request.key();
        let (done, path): (_, &[&str]) = match kind {
            WriteKind::Create => ("created", &["volume", "csi", key.id.as_str(), "create"]),
            WriteKind::Register => ("registered", &["volume", "csi", key.id.as_str()]),
        };
        let what = format!("volume {key} was not {done}");
        addressable(key.id.as_str(), &what)?;
        let volume = wire::request_to_wire(request, kind)
            .map_err(|error| unsendable(&what, &error.to_string()))?;
        let body = WriteRequest {
            volumes: vec![volume],
            ..WriteRequest::default()
        };
        let body =
            serde_json::to_vec(&body).map_err(|error| unsendable(&what, &error.to_string()))?;
        let put = Request {
            query: vec![("namespace", key.namespace.as_str())],
            body: Some(&body),
            ..Request::new(Method::PUT, path)
        };
        let written = self.written(&put, &what).await;
        let nothing = Secrets::default();
        written.map_err(|error| without(error, request.secrets.as_ref().unwrap_or(&nothing)))
    }

    /// Sends a write and reads what it answers; servers before 1.10.5 answer a register with nothing.
    async fn written(&self, put: &Request<'_>, what: &str) -> Result<Written, ApiError> {
        let answer = self.call(put, what, Access::Write).await?;
        if answer.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Written::default());
        }
        let asked = self.asked(what, Access::Write);
        let mut json = reply::json(&answer, asked)?;
        let mut document = json
            .get_mut("Volumes")
            .and_then(|volumes| volumes.get_mut(0));
        if let Some(volume) = &mut document {
            hide_what_is_secret(volume);
        }
        let document = document.map(Value::take);
        let response: WriteResponse =
            wire::decode_value(&json).map_err(|error| reply::other_document(&error, asked))?;
        let warnings = response.warnings.lines().map(str::trim);
        Ok(Written {
            document,
            warnings: warnings
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    }

    async fn list<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&'static str, &str)],
        what: &str,
    ) -> Result<Vec<(T, Value)>, ApiError> {
        let mut all = vec![];
        let mut tokens = HashSet::new();
        let mut token: Option<String> = None;
        loop {
            let mut page = Request {
                query: query.to_vec(),
                ..Request::new(Method::GET, path)
            };
            page.query
                .extend(token.as_deref().map(|token| ("next_token", token)));
            let answer = self.call(&page, what, Access::Read).await?;
            self.add_page(&answer, what, &mut all)?;
            let next = answer.headers.get(NEXT_TOKEN).map(HeaderValue::as_bytes);
            let next = next.map(|next| String::from_utf8_lossy(next).into_owned());
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(all),
                Some(next) if tokens.insert(next.clone()) => token = Some(next),
                Some(_) => return Err(self.endless(what)),
            }
        }
    }

    fn add_page<T: DeserializeOwned>(
        &self,
        answer: &Answer,
        what: &str,
        all: &mut Vec<(T, Value)>,
    ) -> Result<(), ApiError> {
        let asked = self.asked(what, Access::Read);
        let page = reply::json(answer, asked)?;
        let stubs: Vec<T> =
            wire::decode_value(&page).map_err(|error| reply::other_document(&error, asked))?;
        let Value::Array(documents) = page else {
            return Ok(()); // `null`: an empty list
        };
        all.extend(stubs.into_iter().zip(documents));
        Ok(())
    }

    fn endless(&self, what: &str) -> ApiError {
        ApiError {
            code: Code::ApiNotNomad,
            status: Some(200),
            message: format!("{what}: {} gives the same page again", self.endpoint.name()),
            help: vec![],
            server_text: None,
        }
    }
}

#[async_trait]
impl VolumeApi for NomadClient {
    fn name(&self) -> &str {
        self.endpoint.name()
    }

    async fn merge_rules(&self) -> Result<MergeRules, ApiError> {
        let request = Request::new(Method::GET, &["regions"]);
        let what = "it could not be found out who answers";
        let answer = attempt(Access::Read, || {
            self.endpoint.send(&request, Access::Read, what)
        });
        Ok(Server::of(&answer.await?.headers).merge_rules())
    }

    async fn list_volumes(
        &self,
        query: &VolumeQuery,
    ) -> Result<Vec<Reading<VolumeSummary>>, ApiError> {
        let mut parameters = vec![
            ("type", "csi"),
            ("namespace", query.namespace.as_str()),
            ("per_page", PER_PAGE),
        ];
        match (&query.prefix, &query.plugin) {
            (Some(prefix), _) => parameters.push(("prefix", prefix)),
            // With `*` the server finds none, and beside `plugin_id` it ignores a prefix (3.1).
            (None, Some(plugin)) if query.namespace.as_str() != Namespace::ALL => {
                parameters.push(("plugin_id", plugin.as_str()));
            }
            (None, _) => {}
        }
        let what = "the volumes could not be listed";
        let listed = self
            .list::<VolumeStub>(&["volumes"], &parameters, what)
            .await?;
        let mut volumes = BTreeMap::new();
        for (stub, document) in listed {
            let value = wire::summary_from_wire(&stub);
            if wanted(query, &value) {
                let key = (value.namespace.clone(), value.id.clone());
                volumes.insert(key, Reading { value, document });
            }
        }
        Ok(volumes.into_values().collect())
    }

    async fn read_volume(&self, key: &NamespacedId) -> Result<Option<Reading<Volume>>, ApiError> {
        let what = format!("volume {key} could not be read");
        addressable(key.id.as_str(), &what)?;
        let path = ["volume", "csi", key.id.as_str()];
        let get = Request {
            query: vec![("namespace", key.namespace.as_str())],
            ..Request::new(Method::GET, &path)
        };
        let found = self
            .find::<VolumeDocument>(&get, &what, Code::VolumeNotFound)
            .await?;
        let Some((volume, document)) = found else {
            return Ok(None);
        };
        if volume.id != key.id.as_str() {
            return Err(self.another(&what, &volume.id));
        }
        let value = wire::volume_from_wire(&volume);
        Ok(Some(Reading { value, document }))
    }

    async fn create_volume(&self, request: &VolumeRequest) -> Result<Written, ApiError> {
        self.write(request, WriteKind::Create).await
    }

    async fn register_volume(&self, request: &VolumeRequest) -> Result<Written, ApiError> {
        self.write(request, WriteKind::Register).await
    }

    async fn deregister_volume(&self, key: &NamespacedId, force: bool) -> Result<(), ApiError> {
        let what = format!("volume {key} was not deregistered");
        addressable(key.id.as_str(), &what)?;
        let path = ["volume", "csi", key.id.as_str()];
        let force = if force { "true" } else { "false" };
        let delete = Request {
            query: vec![("namespace", key.namespace.as_str()), ("force", force)],
            ..Request::new(Method::DELETE, &path)
        };
        self.call(&delete, &what, Access::Write).await.map(drop)
    }

    async fn delete_volume(&self, key: &NamespacedId, secrets: &Secrets) -> Result<(), ApiError> {
        let what = format!("volume {key} was not deleted");
        addressable(key.id.as_str(), &what)?;
        let path = ["volume", "csi", key.id.as_str(), "delete"];
        let mut delete = Request {
            query: vec![("namespace", key.namespace.as_str())],
            ..Request::new(Method::DELETE, &path)
        };
        if !secrets.is_empty() {
            let header = wire::secrets_header(secrets)
                .map_err(|error| unsendable(&what, &error.to_string()))?;
            let mut value = HeaderValue::from_bytes(header.as_bytes())
                .map_err(|error| unsendable(&what, &error.to_string()))?;
            value.set_sensitive(true);
            delete.headers.insert(SECRETS, value);
        }
        let deleted = self.call(&delete, &what, Access::Write).await;
        deleted.map(drop).map_err(|error| without(error, secrets))
    }

    async fn list_plugins(
        &self,
        prefix: Option<&str>,
    ) -> Result<Vec<Reading<PluginSummary>>, ApiError> {
        let mut parameters = vec![("type", "csi")];
        parameters.extend(prefix.map(|prefix| ("prefix", prefix)));
        let what = "the plugins could not be listed";
        let listed = self
            .list::<PluginStub>(&["plugins"], &parameters, what)
            .await?;
        let mut plugins = BTreeMap::new();
        for (stub, document) in listed {
            let value = wire::plugin_summary_from_wire(&stub);
            if prefix.is_none_or(|prefix| value.id.as_str().starts_with(prefix)) {
                plugins.insert(value.id.clone(), Reading { value, document });
            }
        }
        Ok(plugins.into_values().collect())
    }

    async fn read_plugin(
        &self,
        id: &PluginId,
        namespace: &Namespace,
    ) -> Result<Option<Reading<Plugin>>, ApiError> {
        let what = format!("plugin {id} could not be read");
        addressable(id.as_str(), &what)?;
        let path = ["plugin", "csi", id.as_str()];
        let get = Request {
            query: vec![("namespace", namespace.as_str())],
            ..Request::new(Method::GET, &path)
        };
        let found = self
            .find::<PluginDocument>(&get, &what, Code::PluginNotFound)
            .await?;
        let Some((plugin, document)) = found else {
            return Ok(None);
        };
        if plugin.id != id.as_str() {
            return Err(self.another(&what, &plugin.id));
        }
        let value = wire::plugin_from_wire(&plugin);
        Ok(Some(Reading { value, document }))
    }
}

impl NomadClient {
    /// An answer about something else: no Nomad gives one.
    fn another(&self, what: &str, id: &str) -> ApiError {
        ApiError {
            code: Code::ApiNotNomad,
            status: Some(200),
            message: format!("{what}: {} answered with `{id}`", self.endpoint.name()),
            help: vec![],
            server_text: None,
        }
    }
}

fn wanted(query: &VolumeQuery, volume: &VolumeSummary) -> bool {
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let all = query.namespace.as_str() == Namespace::ALL;
    let plugin = query.plugin.as_ref();
    volume.id.as_str().starts_with(prefix)
        && (all || volume.namespace == query.namespace)
        && plugin.is_none_or(|plugin| volume.plugin_id == *plugin)
}

/// Refuses an ID that the server would take for another path (section 1).
fn addressable(id: &str, what: &str) -> Result<(), ApiError> {
    let problem = match id {
        "" => IdProblem::Empty,
        "." | ".." => IdProblem::DotSegment,
        id if id.contains('/') => IdProblem::Unaddressable('/'),
        _ => return Ok(()),
    };
    Err(ApiError {
        code: Code::VolumeUnaddressable,
        status: None,
        message: format!("{what}: its ID cannot be used: {problem}"),
        help: vec![],
        server_text: None,
    })
}

fn unsendable(what: &str, why: &str) -> ApiError {
    ApiError {
        code: Code::ApiUnsendable,
        status: None,
        message: format!("{what}: {why}"),
        help: vec![],
        server_text: None,
    }
}

/// Hides, in a volume's JSON, what Nomad before 1.3 shows.
fn hide_what_is_secret(volume: &mut Value) {
    if let Some(secrets) = volume.get_mut("Secrets") {
        *secrets = Value::Null;
    }
    let flags = volume.pointer_mut("/MountOptions/MountFlags");
    if let Some(Value::Array(flags)) = flags
        && !flags.is_empty()
    {
        *flags = vec![Value::from(MountOptions::REDACTED)];
    }
}

/// An error without the secrets that were sent: plugins repeat them. Very short ones stay: taking
/// them out would only mangle the words.
fn without(mut error: ApiError, secrets: &Secrets) -> ApiError {
    const SHORTEST: usize = 4;
    let hide = |text: &mut String| {
        for (_, value) in secrets
            .expose()
            .filter(|(_, value)| value.len() >= SHORTEST)
        {
            *text = text.replace(value, MountOptions::REDACTED);
        }
    };
    hide(&mut error.message);
    error.help.iter_mut().for_each(hide);
    error.server_text.iter_mut().for_each(hide);
    error
}

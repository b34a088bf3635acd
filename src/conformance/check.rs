//! A running check: sends calls, records exchanges and findings, and tracks new resources.
//!
//! A check can end at any point, also when an interrupt drops its future during a call. The tracked
//! resources survive that, and [`Check::clean_up`] removes them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::finding::{Exchange, Finding, Level};
use super::options::CheckOptions;
use super::probed_plugin::ProbedPlugin;
use super::resources::{Resource, ResourceTracker, TrackedCall};
use super::workload_files::WorkloadFiles;
use super::{answers, message_text};
use nomad_csi_csi::{CallFailure, CsiRequest as _, FailureKind, RawClient};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::{CreateVolumeRequest, ProbeRequest};

/// Why a check stops early.
#[derive(Debug)]
pub(super) enum StopReason {
    /// A finding is recorded.
    FindingRecorded,
    /// The plugin did not provide what the check needs.
    NotRun(String),
    /// The plugin's responses show that the check does not apply.
    NotApplicable(String),
}

/// The client and the arguments that all checks of a run share.
pub(super) struct CheckSession {
    pub(super) client: RawClient,
    pub(super) options: CheckOptions,
    pub(super) plugin: ProbedPlugin,
    pub(super) files: Arc<dyn WorkloadFiles>,
    /// True if a CreateVolume succeeded.
    pub(super) has_created_volume: bool,
    /// The error of the first CreateVolume that had to succeed and was refused with INVALID_ARGUMENT.
    pub(super) refused_creation: Option<String>,
    /// The number of names used so far.
    pub(super) names_used: u32,
    /// Errors that break the rules for all errors (CSI section "Error Scheme").
    pub(super) invalid_errors: Vec<(Exchange, &'static str)>,
    /// The number of findings so far.
    pub(super) findings: usize,
    /// The length of the plugin's log at the start.
    pub(super) log_start: u64,
}

/// A running check.
pub(super) struct Check<'a> {
    pub(super) session: &'a mut CheckSession,
    pub(super) findings: Vec<Finding>,
    /// How many findings of the check are counted only.
    unlisted: usize,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) resources: ResourceTracker,
    /// The first call that lost the connection to the plugin.
    broken: Option<Exchange>,
}

/// The number of findings to list, of all checks together; the rest is counted.
const MAX_FINDINGS: usize = 1_000;
/// The number of exchanges to keep per check.
const MAX_EXCHANGES: usize = 200;
/// The number of messages to read from one stream.
const MAX_MESSAGES: usize = 10_000;
/// Probes of a plugin that was lost, and the pause between two probes.
const RESTART_ATTEMPTS: u32 = 20;
const RESTART_PAUSE: Duration = Duration::from_millis(250);

impl<'a> Check<'a> {
    pub(super) fn new(session: &'a mut CheckSession) -> Self {
        Self {
            session,
            findings: vec![],
            unlisted: 0,
            exchanges: vec![],
            resources: ResourceTracker::default(),
            broken: None,
        }
    }

    pub(super) fn options(&self) -> &CheckOptions {
        &self.session.options
    }

    pub(super) fn plugin(&self) -> &ProbedPlugin {
        &self.session.plugin
    }

    /// Returns a unique name.
    pub(super) fn unique_name(&mut self) -> String {
        self.session.names_used += 1;
        format!("{}-{}", self.session.options.name_prefix, self.session.names_used)
    }

    /// Sends a call and records it.
    pub(super) async fn call<C: TrackedCall>(
        &mut self,
        request: C,
    ) -> Result<C::Response, CallFailure> {
        let entry = self.resources.track(&request);
        let started = Instant::now();
        let response = self.session.client.call(request.clone()).await;
        self.resources.resolve(&entry, &request, &response);
        self.record(&request, &response, started.elapsed());
        response
    }

    /// Sends several calls concurrently and waits for all responses.
    pub(super) async fn call_concurrently<C: TrackedCall>(
        &mut self,
        requests: Vec<C>,
    ) -> Vec<Result<C::Response, CallFailure>> {
        let entries: Vec<_> =
            requests.iter().map(|request| self.resources.track(request)).collect();
        let client = &self.session.client;
        let sending = requests.iter().map(async |request| {
            let started = Instant::now();
            let response = client.call(request.clone()).await;
            (response, started.elapsed())
        });
        let responses = join_all(sending).await;
        let mut all = vec![];
        for ((request, entry), (response, elapsed)) in requests.iter().zip(&entries).zip(responses)
        {
            self.resources.resolve(entry, request, &response);
            self.record(request, &response, elapsed);
            all.push(response);
        }
        all
    }

    /// Sends a call whose response is a stream, and records it.
    pub(super) async fn stream<C: TrackedCall>(
        &mut self,
        request: C,
    ) -> Result<Vec<C::Response>, CallFailure> {
        let started = Instant::now();
        let client = self.session.client.clone();
        let response = client.collect(request.clone(), MAX_MESSAGES).await;
        let last = response.as_ref().map(|messages| {
            let last = messages.last().cloned();
            last.unwrap_or_default()
        });
        let last = last.map_err(Clone::clone);
        self.record(&request, &last, started.elapsed());
        response
    }

    /// Sends a call and closes the connection once the request is sent.
    ///
    /// # Errors
    /// Stops the check as not run if the request cannot be sent.
    pub(super) async fn call_and_disconnect<C: TrackedCall>(
        &mut self,
        request: C,
    ) -> Result<(), StopReason> {
        // The outcome is unknown, so the entry stays.
        let _outcome_unknown = self.resources.track(&request);
        let started = Instant::now();
        let client = self.session.client.clone();
        let left = client.send_and_disconnect(request.clone()).await;
        self.exchanges.push(Exchange {
            sent: message_text::request_text(C::RPC, &request),
            got: "the connection was closed after the request".to_owned(),
            elapsed: started.elapsed(),
        });
        left.map_err(|failure| StopReason::NotRun(format!("cannot send {}: {failure}", C::RPC)))
    }

    /// Sends a call that must succeed.
    ///
    /// # Errors
    /// Records a finding if the call fails.
    pub(super) async fn call_ok<C: TrackedCall>(
        &mut self,
        request: C,
        because: &str,
    ) -> Result<C::Response, StopReason> {
        match self.call(request).await {
            Ok(response) => Ok(response),
            Err(failure) => {
                self.note_refused_creation(C::RPC, &failure);
                self.add_finding(Level::Must, &format!("OK: {because}"), &failure.to_string());
                Err(StopReason::FindingRecorded)
            }
        }
    }

    /// Remembers a valid CreateVolume that was refused: it may lack the parameters of the provider.
    fn note_refused_creation(&mut self, rpc: &str, failure: &CallFailure) {
        if rpc == CreateVolumeRequest::RPC && failure.code() == Some(StatusCode::InvalidArgument) {
            let text = failure.to_string();
            let text = message_text::redact_secrets(&text, &self.session.options.secrets);
            self.session.refused_creation.get_or_insert(text);
        }
    }

    /// Sends a call that prepares the check.
    ///
    /// # Errors
    /// Stops the check as not run if the call fails.
    pub(super) async fn prepare<C: TrackedCall>(
        &mut self,
        request: C,
    ) -> Result<C::Response, StopReason> {
        let response = self.call(request).await;
        response.map_err(|failure| {
            self.note_refused_creation(C::RPC, &failure);
            let failure =
                message_text::redact_secrets(&failure.to_string(), &self.options().secrets);
            StopReason::NotRun(format!("{} failed with {failure}", C::RPC))
        })
    }

    /// Sends a call that must fail with one of `codes`.
    pub(super) async fn call_refused<C: TrackedCall>(
        &mut self,
        request: C,
        codes: &[StatusCode],
        because: &str,
    ) {
        let response = self.call(request).await;
        self.expect_refusal(&response, codes, because);
    }

    /// Sends a call without one required field. It must fail with INVALID_ARGUMENT.
    pub(super) async fn call_without<C: TrackedCall>(
        &mut self,
        whole: &C,
        field: &str,
        take: impl FnOnce(&mut C),
    ) {
        let mut request = whole.clone();
        take(&mut request);
        let because = format!("{field} is required");
        self.call_refused(request, &[StatusCode::InvalidArgument], &because).await;
    }

    /// Records a finding if the last call did not fail with one of `codes`.
    pub(super) fn expect_refusal<T>(
        &mut self,
        response: &Result<T, CallFailure>,
        codes: &[StatusCode],
        because: &str,
    ) {
        if let Err(got) = answers::check_refusal(response, codes) {
            let expected = format!("{}: {because}", answers::join_codes(codes));
            let got = if response.is_ok() {
                self.exchanges.last().map_or(got, |exchange| exchange.got.clone())
            } else {
                got
            };
            self.add_finding(Level::Must, &expected, &got);
        }
    }

    /// Records a finding if the last call failed.
    pub(super) fn expect_ok<T>(&mut self, response: &Result<T, CallFailure>, because: &str) {
        if let Err(failure) = response {
            self.add_finding(Level::Must, &format!("OK: {because}"), &failure.to_string());
        }
    }

    /// Records a finding about the last call if a rule does not hold. Returns whether it holds.
    pub(super) fn expect(&mut self, holds: bool, expected: &str, got: &str) -> bool {
        if !holds {
            self.add_finding(Level::Must, expected, got);
        }
        holds
    }

    /// Records advice about the last call if a rule does not hold. Returns whether it holds.
    pub(super) fn advise(&mut self, holds: bool, expected: &str, got: &str) -> bool {
        if !holds {
            self.add_finding(Level::Advice, expected, got);
        }
        holds
    }

    /// Records problems that a pure function found in the last response.
    pub(super) fn add_problems(&mut self, problems: Vec<(Level, String, String)>) {
        for (level, expected, got) in problems {
            self.add_finding(level, &expected, &got);
        }
    }

    pub(super) fn add_finding(&mut self, level: Level, expected: &str, got: &str) {
        // The first one of each check decides its verdict.
        let is_first = self.findings.iter().all(|finding| finding.level < level);
        if self.session.findings >= MAX_FINDINGS && !is_first {
            self.unlisted += 1;
            return;
        }
        self.session.findings += 1;
        let got = message_text::redact_secrets(got, &self.session.options.secrets);
        self.findings.push(Finding {
            level,
            expected: expected.to_owned(),
            got,
            sent: self.exchanges.last().map(|exchange| exchange.sent.clone()).unwrap_or_default(),
        });
    }

    /// Returns the findings, and one that counts those that are not listed.
    pub(super) fn take_findings(&mut self) -> Vec<Finding> {
        let mut findings = std::mem::take(&mut self.findings);
        if self.unlisted > 0 {
            findings.push(Finding {
                level: Level::Advice,
                expected: format!("at most {MAX_FINDINGS} findings are listed"),
                got: format!("{} further findings of this check", self.unlisted),
                sent: String::new(),
            });
        }
        findings
    }

    /// Returns whether the check has a finding other than advice.
    pub(super) fn has_failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Must)
    }

    /// Creates a directory, if it is missing. The clean-up removes it.
    ///
    /// # Errors
    /// Stops the check as not run if the directory cannot be created.
    pub(super) async fn create_directory(&mut self, path: &Path) -> Result<(), StopReason> {
        let created = self.session.files.create_directories(path).await;
        let created = created.map_err(|error| {
            StopReason::NotRun(format!("cannot create `{}`: {error}", path.display()))
        })?;
        for directory in created {
            self.resources.add(Resource::Directory(directory));
        }
        Ok(())
    }

    fn record<C: TrackedCall>(
        &mut self,
        request: &C,
        response: &Result<C::Response, CallFailure>,
        elapsed: Duration,
    ) {
        self.session.has_created_volume |= C::RPC == CreateVolumeRequest::RPC && response.is_ok();
        let secrets = &self.session.options.secrets;
        let got = match response {
            Ok(response) => message_text::response_text(response),
            Err(failure) => failure.to_string(),
        };
        let exchange = Exchange {
            sent: message_text::redact_secrets(
                &message_text::request_text(C::RPC, request),
                secrets,
            ),
            got: message_text::redact_secrets(&got, secrets),
            elapsed,
        };
        if let Err(failure) = response
            && failure.code().is_some()
        {
            let violation = if failure.message.is_empty() {
                Some("no message")
            } else if failure.has_details {
                Some("has details")
            } else if failure.repeats_secret {
                Some("the message contains a secret")
            } else {
                None
            };
            let invalid = &mut self.session.invalid_errors;
            invalid.extend(violation.map(|violation| (exchange.clone(), violation)));
        }
        if let Err(failure) = response
            && matches!(failure.kind, FailureKind::ConnectionLost | FailureKind::NotConnected(_))
        {
            self.broken.get_or_insert_with(|| exchange.clone());
        }
        if self.exchanges.len() < MAX_EXCHANGES {
            self.exchanges.push(exchange);
        }
    }

    /// Returns whether the plugin still listens. A connection that was lost during the check is a finding;
    /// the plugin then gets the time that a supervisor needs to restart it.
    pub(super) async fn plugin_still_listens(&mut self) -> bool {
        let Some(exchange) = self.broken.take() else {
            return true;
        };
        let mut listens = false;
        for _ in 0..RESTART_ATTEMPTS {
            let probe = self.session.client.call(ProbeRequest {}).await;
            listens = probe.is_ok_and(|response| response.ready.unwrap_or(true));
            if listens {
                break;
            }
            tokio::time::sleep(RESTART_PAUSE).await;
        }
        let after = if listens {
            "the plugin listens again"
        } else {
            "the plugin accepts no connection any more"
        };
        self.findings.push(Finding {
            level: Level::Must,
            expected: "a response to every request: no request may crash the plugin".to_owned(),
            got: format!("{}; {after}", exchange.got),
            sent: exchange.sent,
        });
        listens
    }

    /// Returns the secrets of the run for a request.
    pub(super) fn secrets(&self) -> std::collections::BTreeMap<String, String> {
        let pairs = self.session.options.secrets.expose();
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

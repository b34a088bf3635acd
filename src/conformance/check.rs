//! One check at work: sends, writes down every exchange, notes what is made, collects findings.
//!
//! Whatever ends a check (a finding, a failure, an interrupt, which drops its future in the middle
//! of a call) leaves what it made in the ledger, and [`Check::clean_up`] undoes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use super::expect;
use super::made::{Leaves, Ledger, Made};
use super::profile::Profile;
use super::report::{Exchange, Finding, Leftover, Level};
use super::setup::Setup;
use super::show;
use super::workload::Workload;
use crate::csi::proto::{
    ControllerUnpublishVolumeRequest, DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest,
    DeleteVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, ProbeRequest,
};
use crate::csi::{Failure, RawClient, Reached};
use crate::ports::StatusCode;

/// Why a check goes no further.
#[derive(Debug)]
pub(super) enum Stop {
    /// What is wrong has been written down.
    Found,
    /// What it needs could not be had.
    Untried(String),
    /// The plugin's answers show that it is not demanded.
    NotDemanded(String),
}

/// What outlives a single check.
pub(super) struct Session {
    pub(super) client: RawClient,
    pub(super) setup: Setup,
    pub(super) profile: Profile,
    pub(super) workload: Arc<dyn Workload>,
    /// Counts names.
    pub(super) named: u32,
    /// Refusals that break the rules of all refusals (CSI section "Error Scheme").
    pub(super) bad_refusals: Vec<(Exchange, &'static str)>,
    /// How long the plugin's log was at the start.
    pub(super) log_start: u64,
}

/// A running check.
pub(super) struct Check<'a> {
    pub(super) session: &'a mut Session,
    pub(super) findings: Vec<Finding>,
    pub(super) exchanges: Vec<Exchange>,
    ledger: Ledger,
    /// The call during which the plugin's connection broke.
    broken: Option<Exchange>,
}

/// Exchanges that are kept of one check.
const MOST_EXCHANGES: usize = 200;
/// More messages of one stream are not read.
const MOST_MESSAGES: usize = 10_000;
/// How often a plugin that has gone is looked for, and the pause between two.
const RESTART_ATTEMPTS: u32 = 20;
const RESTART_PAUSE: Duration = Duration::from_millis(250);
/// How often a call of the clean-up is sent, and the pause between two.
const CLEAN_UP_ATTEMPTS: u32 = 5;
const CLEAN_UP_PAUSE: Duration = Duration::from_millis(400);

impl<'a> Check<'a> {
    pub(super) fn new(session: &'a mut Session) -> Self {
        Self {
            session,
            findings: vec![],
            exchanges: vec![],
            ledger: Ledger::default(),
            broken: None,
        }
    }

    pub(super) fn setup(&self) -> &Setup {
        &self.session.setup
    }

    pub(super) fn profile(&self) -> &Profile {
        &self.session.profile
    }

    /// A name that nothing else has.
    pub(super) fn name(&mut self) -> String {
        self.session.named += 1;
        format!("{}-{}", self.session.setup.prefix, self.session.named)
    }

    /// Sends a call and writes it down.
    pub(super) async fn call<C: Leaves>(&mut self, request: C) -> Result<C::Answer, Failure> {
        let note = self.ledger.sending(&request);
        let started = Instant::now();
        let answer = self.session.client.call(request.clone()).await;
        self.ledger.settle(&note, &request, &answer);
        self.write_down(&request, &answer, started.elapsed());
        answer
    }

    /// Sends several calls at once and waits for all answers.
    pub(super) async fn together<C: Leaves>(
        &mut self,
        requests: Vec<C>,
    ) -> Vec<Result<C::Answer, Failure>> {
        let notes: Vec<_> = requests
            .iter()
            .map(|request| self.ledger.sending(request))
            .collect();
        let client = &self.session.client;
        let sending = requests.iter().map(async |request| {
            let started = Instant::now();
            let answer = client.call(request.clone()).await;
            (answer, started.elapsed())
        });
        let answers = join_all(sending).await;
        let mut all = vec![];
        for ((request, note), (answer, elapsed)) in requests.iter().zip(&notes).zip(answers) {
            self.ledger.settle(note, request, &answer);
            self.write_down(request, &answer, elapsed);
            all.push(answer);
        }
        all
    }

    /// Sends a call whose answer is a stream, and writes it down.
    pub(super) async fn stream<C: Leaves>(
        &mut self,
        request: C,
    ) -> Result<Vec<C::Answer>, Failure> {
        let started = Instant::now();
        let client = self.session.client.clone();
        let answer = client.collect(request.clone(), MOST_MESSAGES).await;
        let last = answer.as_ref().map(|messages| {
            let last = messages.last().cloned();
            last.unwrap_or_default()
        });
        let last = last.map_err(Clone::clone);
        self.write_down(&request, &last, started.elapsed());
        answer
    }

    /// Sends a call and cuts the connection as soon as it is out.
    ///
    /// # Errors
    /// If it cannot be sent: then the check says nothing.
    pub(super) async fn leave<C: Leaves>(&mut self, request: C) -> Result<(), Stop> {
        // Whether it took effect is not known: the debt stays.
        let _outcome_unknown = self.ledger.sending(&request);
        let started = Instant::now();
        let client = self.session.client.clone();
        let left = client.send_and_leave(request.clone()).await;
        self.exchanges.push(Exchange {
            sent: show::request(C::RPC, &request),
            got: "the connection was cut once the request was out".to_owned(),
            elapsed: started.elapsed(),
        });
        left.map_err(|failure| Stop::Untried(format!("{} could not be sent: {failure}", C::RPC)))
    }

    /// Sends a call that has to succeed.
    ///
    /// # Errors
    /// If it does not; that is a finding.
    pub(super) async fn must<C: Leaves>(
        &mut self,
        request: C,
        because: &str,
    ) -> Result<C::Answer, Stop> {
        match self.call(request).await {
            Ok(answer) => Ok(answer),
            Err(failure) => {
                self.find(Level::Must, &format!("OK: {because}"), &failure.to_string());
                Err(Stop::Found)
            }
        }
    }

    /// Sends a call that only prepares the check.
    ///
    /// # Errors
    /// If it fails: then the check says nothing.
    pub(super) async fn prepare<C: Leaves>(&mut self, request: C) -> Result<C::Answer, Stop> {
        let answer = self.call(request).await;
        answer.map_err(|failure| {
            let failure = show::without_secrets(&failure.to_string(), &self.setup().secrets);
            Stop::Untried(format!("{} failed with {failure}", C::RPC))
        })
    }

    /// Sends a call that has to be refused with one of `codes`.
    pub(super) async fn refused<C: Leaves>(
        &mut self,
        request: C,
        codes: &[StatusCode],
        because: &str,
    ) {
        let answer = self.call(request).await;
        self.hold_refused(&answer, codes, because);
    }

    /// Sends a call that lacks one required field, and has to be refused for that.
    pub(super) async fn needs<C: Leaves>(
        &mut self,
        whole: &C,
        field: &str,
        take: impl FnOnce(&mut C),
    ) {
        let mut request = whole.clone();
        take(&mut request);
        let because = format!("{field} is required");
        self.refused(request, &[StatusCode::InvalidArgument], &because)
            .await;
    }

    /// Writes down if the last answer is no refusal with one of `codes`.
    pub(super) fn hold_refused<T>(
        &mut self,
        answer: &Result<T, Failure>,
        codes: &[StatusCode],
        because: &str,
    ) {
        if let Err(got) = expect::refused(answer, codes) {
            let expected = format!("{}: {because}", expect::words(codes));
            let got = if answer.is_ok() {
                self.exchanges
                    .last()
                    .map_or(got, |exchange| exchange.got.clone())
            } else {
                got
            };
            self.find(Level::Must, &expected, &got);
        }
    }

    /// Writes down if the last answer is a failure.
    pub(super) fn hold_ok<T>(&mut self, answer: &Result<T, Failure>, because: &str) {
        if let Err(failure) = answer {
            self.find(Level::Must, &format!("OK: {because}"), &failure.to_string());
        }
    }

    /// Writes down that something does not hold, if it does not; about the last call.
    pub(super) fn hold(&mut self, holds: bool, expected: &str, got: &str) -> bool {
        if !holds {
            self.find(Level::Must, expected, got);
        }
        holds
    }

    /// Writes down advice, if something is not as it should be; about the last call.
    pub(super) fn advise(&mut self, holds: bool, expected: &str, got: &str) -> bool {
        if !holds {
            self.find(Level::Advice, expected, got);
        }
        holds
    }

    /// Writes down problems that a pure function found, about the last call.
    pub(super) fn problems(&mut self, problems: Vec<(Level, String, String)>) {
        for (level, expected, got) in problems {
            self.find(level, &expected, &got);
        }
    }

    pub(super) fn find(&mut self, level: Level, expected: &str, got: &str) {
        let got = show::without_secrets(got, &self.session.setup.secrets);
        self.findings.push(Finding {
            level,
            expected: expected.to_owned(),
            got,
            sent: self
                .exchanges
                .last()
                .map(|exchange| exchange.sent.clone())
                .unwrap_or_default(),
        });
    }

    /// Whether something is wrong, advice apart.
    pub(super) fn has_failed(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.level == Level::Must)
    }

    /// Makes a directory, unless it is there, that is removed at the end.
    ///
    /// # Errors
    /// If it cannot be made: then the check says nothing.
    pub(super) async fn directory(&mut self, path: &Path) -> Result<(), Stop> {
        let made = self.session.workload.make_directory(path).await;
        let made = made.map_err(|error| {
            Stop::Untried(format!("{} could not be made: {error}", path.display()))
        })?;
        for directory in made {
            self.ledger.owe(Made::Directory(directory));
        }
        Ok(())
    }

    fn write_down<C: Leaves>(
        &mut self,
        request: &C,
        answer: &Result<C::Answer, Failure>,
        elapsed: Duration,
    ) {
        let secrets = &self.session.setup.secrets;
        let got = match answer {
            Ok(answer) => show::answer(answer),
            Err(failure) => failure.to_string(),
        };
        let exchange = Exchange {
            sent: show::without_secrets(&show::request(C::RPC, request), secrets),
            got: show::without_secrets(&got, secrets),
            elapsed,
        };
        if let Err(failure) = answer
            && failure.code().is_some()
        {
            let wrong = if failure.message.is_empty() {
                Some("it has no message")
            } else if failure.has_details {
                Some("it carries details")
            } else if show::holds_secret(&failure.message, secrets) {
                Some("its message shows a secret")
            } else {
                None
            };
            let wrongs = &mut self.session.bad_refusals;
            wrongs.extend(wrong.map(|wrong| (exchange.clone(), wrong)));
        }
        if let Err(failure) = answer
            && matches!(failure.reached, Reached::Broken | Reached::NotConnected(_))
        {
            self.broken.get_or_insert_with(|| exchange.clone());
        }
        if self.exchanges.len() < MOST_EXCHANGES {
            self.exchanges.push(exchange);
        }
    }

    /// Whether the plugin listens. If its connection broke during the check, that is a finding, and
    /// it is waited for as long as a supervisor takes to start it again.
    pub(super) async fn still_listens(&mut self) -> bool {
        let Some(exchange) = self.broken.take() else {
            return true;
        };
        let mut listens = false;
        for _ in 0..RESTART_ATTEMPTS {
            let probe = self.session.client.call(ProbeRequest {}).await;
            listens = probe.is_ok_and(|answer| answer.ready.unwrap_or(true));
            if listens {
                break;
            }
            tokio::time::sleep(RESTART_PAUSE).await;
        }
        let after = if listens {
            "the plugin listens again"
        } else {
            "the plugin does not listen any more"
        };
        self.findings.push(Finding {
            level: Level::Must,
            expected: "an answer, whatever is asked: no request ends the plugin".to_owned(),
            got: format!("{}; {after}", exchange.got),
            sent: exchange.sent,
        });
        listens
    }

    /// Undoes everything that is still there, and says what could not be undone.
    pub(super) async fn clean_up(&mut self) -> Vec<Leftover> {
        let mut leftovers = vec![];
        for made in self.ledger.take() {
            if let Err(why) = self.undo(&made).await {
                leftovers.push(Leftover {
                    what: made.to_string(),
                    why: show::without_secrets(&why, &self.session.setup.secrets),
                });
            }
        }
        leftovers
    }

    /// # Errors
    /// Why it is still there, in words.
    async fn undo(&self, made: &Made) -> Result<(), String> {
        match made {
            Made::Directory(path) => self.remove(path).await,
            Made::Volume(id) => self.delete_volume(id).await,
            Made::NamelessVolume(request) => {
                let created = self.persist(request.as_ref()).await?;
                match created.and_then(|answer| answer.volume) {
                    Some(volume) => self.delete_volume(&volume.volume_id).await,
                    None => Ok(()),
                }
            }
            Made::Snapshot(id) => self.delete_snapshot(id).await,
            Made::NamelessSnapshot(request) => {
                let created = self.persist(request.as_ref()).await?;
                match created.and_then(|answer| answer.snapshot) {
                    Some(snapshot) => self.delete_snapshot(&snapshot.snapshot_id).await,
                    None => Ok(()),
                }
            }
            Made::Group { id, members } => self.delete_group(id, members).await,
            Made::NamelessGroup(request) => {
                let created = self.persist(request.as_ref()).await?;
                let Some(group) = created.and_then(|answer| answer.group_snapshot) else {
                    return Ok(());
                };
                let members: Vec<String> = group
                    .snapshots
                    .into_iter()
                    .map(|snapshot| snapshot.snapshot_id)
                    .collect();
                self.delete_group(&group.group_snapshot_id, &members).await
            }
            Made::Attachment { volume, node } => {
                let request = ControllerUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    node_id: node.clone(),
                    secrets: self.secrets(),
                };
                self.persist(&request).await.map(drop)
            }
            Made::Staging { volume, path } => {
                let request = NodeUnstageVolumeRequest {
                    volume_id: volume.clone(),
                    staging_target_path: path.clone(),
                };
                self.persist(&request).await.map(drop)
            }
            Made::Target { volume, path } => {
                let request = NodeUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    target_path: path.clone(),
                };
                self.persist(&request).await?;
                self.remove(&PathBuf::from(path)).await
            }
        }
    }

    async fn remove(&self, path: &Path) -> Result<(), String> {
        let removed = self.session.workload.remove_empty(path).await;
        removed.map_err(|error| error.to_string())
    }

    async fn delete_volume(&self, id: &str) -> Result<(), String> {
        let request = DeleteVolumeRequest {
            volume_id: id.to_owned(),
            secrets: self.secrets(),
        };
        self.persist(&request).await.map(drop)
    }

    async fn delete_snapshot(&self, id: &str) -> Result<(), String> {
        let request = DeleteSnapshotRequest {
            snapshot_id: id.to_owned(),
            secrets: self.secrets(),
        };
        self.persist(&request).await.map(drop)
    }

    async fn delete_group(&self, id: &str, members: &[String]) -> Result<(), String> {
        let request = DeleteVolumeGroupSnapshotRequest {
            group_snapshot_id: id.to_owned(),
            snapshot_ids: members.to_vec(),
            secrets: self.secrets(),
        };
        self.persist(&request).await.map(drop)
    }

    /// Sends a call of the clean-up until it is answered. `None` means that there is nothing to undo
    /// any more: the thing is not there, or it was never made.
    async fn persist<C: Leaves>(&self, request: &C) -> Result<Option<C::Answer>, String> {
        let mut last = String::new();
        for attempt in 0..CLEAN_UP_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(CLEAN_UP_PAUSE).await;
            }
            let failure = match self.session.client.call(request.clone()).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(failure) => failure,
            };
            let creates = request.sent().is_some();
            match failure.code() {
                Some(StatusCode::NotFound | StatusCode::Unimplemented) => return Ok(None),
                Some(StatusCode::InvalidArgument | StatusCode::AlreadyExists) if creates => {
                    return Ok(None);
                }
                _ => {}
            }
            last = failure.to_string();
            if !expect::passes(&failure) && failure.code() != Some(StatusCode::FailedPrecondition) {
                break;
            }
        }
        Err(last)
    }

    /// The secrets of this run, as messages carry them.
    pub(super) fn secrets(&self) -> std::collections::BTreeMap<String, String> {
        let pairs = self.session.setup.secrets.expose();
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }
}

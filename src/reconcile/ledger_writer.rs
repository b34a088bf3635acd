//! Steps noted in a set of the ledger, many in one writing.
//!
//! A hundred volumes are worked on at once, and a ledger takes one writing after the other; so notes
//! are handed to the one who writes, [`keep`], and whatever has come together while the last writing
//! was under way goes out with the next. A step is begun only after its note has been written
//! (`record`), and a note says what shall hold, never a difference, so that it can be made again on
//! what somebody else wrote meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use super::ledger::SetLedger;
use super::record::{Record, Recorded};
use super::recorded_scope::RecordedScope;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{NamespacedId, Volume, VolumeRequest};
use crate::plan::{
    Action, Actor, HiddenField, Intent, IntentStep, LastVerified, LedgerSet, MergeRules,
    OmittedMap, Ownership, Plan, VolumeVersion,
};
use crate::ports::{Clock, LedgerError, LedgerFailure};

/// So many notes may wait for their writing; who has another waits.
const WAITING: usize = 256;

type Change = Box<dyn Fn(&mut LedgerSet) + Send + Sync>;

/// A note that waits for its writing.
pub(super) struct LedgerUpdate {
    change: Change,
    written: oneshot::Sender<Result<(), LedgerError>>,
}

impl std::fmt::Debug for LedgerUpdate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Note")
    }
}

/// Takes notes for a set.
pub(super) struct LedgerWriter {
    notes: mpsc::Sender<LedgerUpdate>,
    by: Actor,
    clock: Arc<dyn Clock>,
    rules: MergeRules,
    scope: RecordedScope,
    wanted: BTreeMap<NamespacedId, Wanted>,
}

/// What a plan wants of a volume's entry beside what is applied.
#[derive(Clone, Debug, Default)]
struct Wanted {
    protect: Option<bool>,
    /// It is removed, then made anew, so that the set goes on owning it in between.
    is_replaced: bool,
    /// Nothing hidden can be left over from before.
    is_new: bool,
    /// Hidden values that it loses with somebody's consent.
    cleared_fields: Vec<HiddenField>,
}

impl LedgerWriter {
    /// A notebook for a plan's steps, and its notes, for [`keep`].
    pub(super) fn new(
        plan: &Plan,
        rules: MergeRules,
        scope: RecordedScope,
        by: Actor,
        clock: Arc<dyn Clock>,
    ) -> (Self, mpsc::Receiver<LedgerUpdate>) {
        let (notes, waiting) = mpsc::channel(WAITING);
        let wanted = plan.volumes.iter().map(|planned| {
            let is_replaced = matches!(planned.action, Action::Replace(_));
            let wanted = Wanted {
                protect: planned.spec.as_ref().and_then(|spec| spec.protect),
                is_replaced,
                is_new: is_replaced || planned.expected_version == VolumeVersion::Absent,
                cleared_fields: planned
                    .action
                    .update()
                    .map(|update| update.cleared_fields.clone())
                    .unwrap_or_default(),
            };
            (planned.key.clone(), wanted)
        });
        let notebook = Self {
            notes,
            by,
            clock,
            rules,
            scope,
            wanted: wanted.collect(),
        };
        (notebook, waiting)
    }

    async fn write(&self, change: Change) -> Result<(), LedgerError> {
        let (written, answer) = oneshot::channel();
        let note = LedgerUpdate { change, written };
        self.notes.send(note).await.map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    fn wanted(&self, volume: &NamespacedId) -> Wanted {
        self.wanted.get(volume).cloned().unwrap_or_default()
    }

    fn applied(&self, request: VolumeRequest, now: Option<&Volume>) -> Change {
        let volume = request.key();
        let Wanted {
            protect,
            is_new,
            cleared_fields,
            ..
        } = self.wanted(&volume);
        let mut none = none_left(&request, now, is_new, self.rules);
        none.extend(cleared_fields);
        let scope = self.scope;
        let at = self.clock.now();
        let seen = now.map(|volume| LastVerified {
            modify_index: volume.modify_index,
            at,
        });
        Box::new(move |set| {
            match scope {
                RecordedScope::WholeRequest => set.record_applied(&request),
                RecordedScope::SizeOnly => set.record_size(&request),
            }
            for field in &none {
                set.record_cleared(&volume, *field);
            }
            if let Some(owned) = set.ownership_mut(&volume) {
                owned.protect = protect.unwrap_or(owned.protect);
                owned.last_verified = match scope {
                    RecordedScope::WholeRequest => seen,
                    RecordedScope::SizeOnly => owned.last_verified,
                };
            }
            set.clear_intent(&volume);
        })
    }

    fn removed(&self, volume: NamespacedId) -> Change {
        let is_replaced = self.wanted(&volume).is_replaced;
        Box::new(move |set| {
            match set.ownership(&volume).map(|owned| owned.generation) {
                Some(generation) if is_replaced => set.own(
                    volume.clone(),
                    Ownership {
                        generation: generation.saturating_add(1),
                        ..Ownership::default()
                    },
                ),
                Some(_) | None => drop(set.forget(&volume)),
            }
            set.clear_intent(&volume);
        })
    }
}

/// Hidden values that a volume no longer has, because the request does not give them.
fn none_left(
    request: &VolumeRequest,
    now: Option<&Volume>,
    is_new: bool,
    rules: MergeRules,
) -> Vec<HiddenField> {
    let wiped = rules.omitted_secrets == OmittedMap::Clear;
    let secrets = request.secrets.is_none() && (is_new || wiped);
    // A server that hides flags shows whether there are any.
    let has_flags = |volume: &Volume| {
        let options = volume.mount_options.as_ref();
        options.is_some_and(|options| !options.mount_flags.is_empty())
    };
    let flags = request.mount_options.is_none() && now.is_some_and(|volume| !has_flags(volume));
    let fields = [
        (secrets, HiddenField::Secrets),
        (flags, HiddenField::MountFlags),
    ];
    let none = fields.into_iter().filter(|(is_none, _)| *is_none);
    none.map(|(_, field)| field).collect()
}

fn closed() -> LedgerError {
    let message = "the ledger is no longer being written".to_owned();
    LedgerError::new(LedgerFailure::Unavailable, Code::Internal, message)
}

#[async_trait]
impl Record for LedgerWriter {
    async fn begin(&self, volume: &NamespacedId, step: IntentStep) -> Result<(), Diagnostic> {
        let intent = Intent {
            step,
            since: self.clock.now(),
            by: self.by.clone(),
        };
        let key = volume.clone();
        let change =
            Box::new(move |set: &mut LedgerSet| set.record_intent(key.clone(), intent.clone()));
        self.write(change).await.map_err(|error| {
            error.diagnostic().note(format!(
                "volume {volume} was left as it is: a step is noted in the ledger before it is taken"
            ))
        })
    }

    async fn end(&self, volume: &NamespacedId, what: Recorded<'_>) -> Result<(), Diagnostic> {
        let key = volume.clone();
        let change = match what {
            Recorded::Applied { request, now } => self.applied(request.clone(), now),
            Recorded::Removed => self.removed(key),
            Recorded::Nothing => Box::new(move |set: &mut LedgerSet| {
                set.clear_intent(&key);
            }),
        };
        self.write(change).await.map_err(|error| {
            let message = format!("what became of volume {volume} is not in the ledger");
            Diagnostic::warning(error.code, message)
                .note(error.message)
                .help("run the command again: it reads what is there, and notes that")
        })
    }
}

/// Writes notes into the set until every notebook is gone.
pub(super) async fn write_updates(set: &mut SetLedger, mut waiting: mpsc::Receiver<LedgerUpdate>) {
    let mut notes = vec![];
    while waiting.recv_many(&mut notes, WAITING).await > 0 {
        let written = set
            .update(|set| notes.iter().for_each(|note| (note.change)(set)))
            .await;
        for note in notes.drain(..) {
            // Who no longer waits has been interrupted.
            drop(note.written.send(written.clone()));
        }
    }
}

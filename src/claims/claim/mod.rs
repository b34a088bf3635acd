//! Who may use a volume, and what must happen next.
//!
//! [`Claims`] is the record of one external volume: who claims it, and what is known to be published,
//! staged and attached. [`admit()`] decides about a new claim, [`next_steps`] what to do now, and a
//! [`ClaimEvent`] is the only way to change the record. A call is recorded before it is sent, so
//! [`Known::Maybe`] means that its effect is possible. The claim is removed last, so everything that
//! exists has a claim to undo it.
//!
//! The decisions are total functions without I/O and time. `state` keeps one record per volume of a
//! plugin, `server` drives the steps, and a model check explores every reachable record.
//!
//! The rules that make it safe:
//!
//! 1. A host runs one call under each call lock: the controller's calls for a volume, or those on one node. A held call lock
//!    refuses every other call at once, and no call is cancelled.
//! 2. Requests are ordered: a step is on record before it is sent, and a host refuses a request that a later
//!    one has overtaken, or that is meant for another run of it.
//! 3. No call outlives its host unseen: a host that starts makes sure that the calls of the one before it
//!    have ended.
//! 4. While a step is *Maybe*, no other instance of the plugin is called, unless the first one is gone: its process
//!    has exited, and that is on record. One server has several controllers too: a job with two allocations, an
//!    update of the plugin's job, two endpoints. So the rule holds for all of a volume's controller calls together:
//!    attachments, expansion, change of parameters and deletion, through every registration; and for a creation, by
//!    the name it is made under. A call moves to another instance if the leader that recorded it knows that none of
//!    its attempts may take effect. What an earlier leader sent is not known. `state::bound_controller` is the rule.
//!    An instance that was gone and returns under its ID, as behind an endpoint, is another one. A snapshot follows the rule and
//!    binds nothing: it is not on record, and changes nothing of its volume.
//!
//!    What is gone carries nothing out. So an expansion or a change of parameters ends when the instance that has it now
//!    refuses it as it is: that program does not carry out what it refuses, and every earlier one is gone. What an earlier one did
//!    stays unknown, and the record claims no more: a volume is not smaller than recorded, and a parameter that may have
//!    changed is not among those in force. A creation ends so only if no other program got it, because its volume would
//!    be left at the provider. A deletion never ends so, because a volume on record has to exist: it ends when the plugin says that
//!    the volume is in use.
//! 5. Given rules 1 to 4, the server may stop waiting, start again, repeat or undo a step at any moment.
//! 6. A lost node is not listened to: its answers are not recorded. Silence is not loss.
//! 7. A node that returns is swept before it is used again.
//! 8. The detach from a lost node needs no order. Where nothing is attached, the operator's word is the fence.
//! 9. A claim counts until it is gone, through whichever registration it was made. A volume for one node has
//!    claims on one node.
//! 10. After a reboot, what was published and staged on the node is *Maybe*. Attachments stay.
//!
//! 11. A host serves one leader. It refuses a request of a lower term than the highest it knows of, for every
//!     volume and every call lock, also a request without order, such as the list of what a node has left. It
//!     knows of the term of a request that it refuses, and of the leader that it reports to. Requests are
//!     ordered by term, then by number. A host may forget the term when its agent starts again.
//! 12. A session is addressed only after it is committed: a request names the session of the host that is on
//!     record, and a reboot is on record with the session that follows it. A leader that was deposed commits
//!     nothing, so a host that started again since is out of its reach.
//!
//!     Rules 11 and 12 are for several servers. The model checks them. The agent has one server, and does not have
//!     them yet.
//!
//! 13. What a started step sends is on record while its effect is possible, and is repeated unchanged; only
//!     secrets are those of the registration now. An attachment is read-only if the access mode in force
//!     has only readers, and never because the first claim only reads.
//! 14. A claim is released by the end of its own registration, and of no other. What it shares with claims
//!     of other registrations stays until the last one goes.
//! 15. An attempt that committed nothing pauses before the next one, and its pause belongs to its cause.
//! 16. A claim is not released while its tasks may still write, except by an approval that names their
//!     allocation.
//! 17. A target or staging whose mount vanished is *Maybe*. No task starts on a source that is not the
//!     recorded mount.
//! 18. A step is decided for the instance of the plugin that carries it out, as that instance reports itself,
//!     and never for another node's. The request says what it was decided for, and a host whose instance has
//!     gained or lost it since refuses: decide again.
//! 19. The end of a use is the end of the tasks, and never the end of a mount: tasks have mounts of their own. A
//!     node that returned is swept when every allocation that jobs placed there has reported its end. An
//!     allocation whose job cannot be read has not.
//! 20. A cut-off kills first. The claim stays held, and counts, until the node has reported that no run uses the
//!     volume, or is lost.
//! 21. A claim moves between reading and writing only while nothing is published for it: afterwards its tasks
//!     may use the volume.
//! 22. A node whose plugin had no room for the volume gets no other claim of it, until the step succeeds or its
//!     claims are gone.

mod admit;
mod denied;
mod event;
mod facts;
mod invariant;
mod key;
mod next;
mod record;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod step;
mod usage;

pub use admit::{Admission, AdmissionFacts, ClaimRequest, NodeVolumes, admit, admit_placement};
pub use denied::{ClaimDenied, ClaimDeniedReason, ClaimHolder};
pub use event::{
    ClaimEvent, EventPlace, SetupInputs, StepAnswer, affects, apply, is_new_problem, is_valid,
};
pub use facts::{Facts, PluginSteps};
pub use invariant::violations;
pub use key::ClaimKey;
pub use next::next_steps;
pub use record::{
    AttachedFor, Attachment, Claim, ClaimProgress, Claims, Intent, Known, NodeExpansion, Staging,
    StartedCall, StepProblem, Tombstone,
};
pub use step::{CallLock, Effect, Step};
pub use usage::{ClaimUsage, SealedFlags};

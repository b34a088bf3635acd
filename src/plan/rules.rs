//! How a server merges an update into a volume, what it creates, and what of a volume it shows: a
//! value per server and version.
//!
//! Nomad's rules have changed three times (`nomad-http-api` 8, `users` table 1b); the planner runs
//! those of the server that it talks to, our agent its own. Both go through
//! [`super::merge::merge`], so that a prediction and the agent never disagree.

use std::borrow::Cow;

use crate::diagnostic::{Code, Diagnostic};
use crate::model::{ServerVersion, Volume, WantedRequest};

/// How a server understands what is absent or reordered. A value per server and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeRules {
    /// What an update does to a volume as a whole.
    pub update: UpdateRule,
    /// When two topology requests are the same, and what happens while none is in force (W21).
    pub topologies: TopologyRule,
    /// When two mount options are the same (W19).
    pub mount_options: MountOptionsRule,
    /// What happens to stored secrets if the update says nothing of them (W20). An empty map clears
    /// them on every server.
    pub omitted_secrets: OmittedMap,
    /// What happens to the stored context if the update has none or an empty one (GH-24922).
    pub omitted_context: OmittedMap,
    /// Whether a volume whose size nobody knows is large enough for the least that is asked for.
    pub unknown_capacity: UnknownCapacityRule,
    /// What sizes a volume can be created with.
    pub creates: CreateRule,
    /// What of a volume a read does not show.
    pub unseen: Unseen,
}

/// What sizes a volume can be created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateRule {
    /// With a least size, a largest, both or none.
    AnyRange,
    /// With a largest size wherever there is a least: a missing one counts as zero bytes, and is
    /// refused before the plugin is asked (Nomad before 1.6.3).
    WithMaximum,
    /// One of the two. A create is tried, since a refusal leaves nothing behind; a replacement is not,
    /// which would have removed the volume before.
    PerhapsWithMaximum,
}

/// What an update does to a volume as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateRule {
    /// It takes the volume's place, unless that is in use (Nomad 1.1 and 1.2).
    Overwrite,
    /// It is merged field by field, but not into a volume in use; sizes never change (Nomad 1.3 to
    /// 1.6.2).
    WhileUnused,
    /// It is merged field by field, and each field has its rule (Nomad from 1.6.3 on, our agent).
    FieldByField,
}

/// What of a volume a read does not show, although it is there (`nomad-http-api` 8.2). A difference
/// in these is not found, and never made up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Sizes, capabilities and what the volume was copied from: before 1.1.13 and 1.2.7.
    pub sizes: bool,
    /// Mount options: before 1.3.
    pub mount_options: bool,
    /// The topology request: before 1.3.
    pub topology_request: bool,
}

/// What a map that is not in the update means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OmittedMap {
    /// What is stored stays.
    Keep,
    /// What is stored is lost.
    Wipe,
}

/// How topology requests are merged. While the volume has topologies, a different request is
/// refused under either rule (B03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyRule {
    /// Compared in order, absent differs from empty; ignored while the volume has no topologies.
    ByPosition,
    /// Compared as sets, absent is empty; stored while the volume has no topologies.
    AsSets,
}

/// How mount options are merged. They are replaced by the update's, and an update that says nothing
/// of them says that there are none: clients send an empty object for that. While the volume is
/// claimed, different ones are refused under either rule: what is mounted keeps the old ones, and
/// one volume would be mounted in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountOptionsRule {
    /// Stored as absent differs from empty (`null` from `{}`).
    AbsentDiffers,
    /// Stored as absent is empty.
    AbsentIsEmpty,
}

/// How large a volume is whose provider reported no size (zero on the wire: a directory, or a volume
/// that was only registered; `csi-orchestration` 2.7). A raised minimum asks for an expansion under
/// either rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCapacityRule {
    /// It has no bytes: any minimum asks for an expansion, also the one it was made with.
    IsZero,
    /// It has the least that was asked for before.
    HoldsRecordedMinimum,
}

impl MergeRules {
    /// A Nomad server of today: 1.9.6 and later.
    pub const NOMAD: Self = Self {
        update: UpdateRule::FieldByField,
        topologies: TopologyRule::ByPosition,
        mount_options: MountOptionsRule::AbsentDiffers,
        omitted_secrets: OmittedMap::Wipe,
        omitted_context: OmittedMap::Keep,
        unknown_capacity: UnknownCapacityRule::IsZero,
        creates: CreateRule::AnyRange,
        unseen: Unseen {
            sizes: false,
            mount_options: false,
            topology_request: false,
        },
    };

    /// A Nomad server of which nobody says how old it is: everything that any of them since 1.3
    /// refuses or loses.
    pub const STRICTEST: Self = Self {
        update: UpdateRule::WhileUnused,
        omitted_context: OmittedMap::Wipe,
        creates: CreateRule::PerhapsWithMaximum,
        ..Self::NOMAD
    };

    /// Our agent: secrets are not lost by leaving them out, absent is empty, order does not matter where
    /// it has no meaning, and a volume of unknown size holds what it was made for.
    pub const AGENT: Self = Self {
        update: UpdateRule::FieldByField,
        topologies: TopologyRule::AsSets,
        mount_options: MountOptionsRule::AbsentIsEmpty,
        omitted_secrets: OmittedMap::Keep,
        omitted_context: OmittedMap::Keep,
        unknown_capacity: UnknownCapacityRule::HoldsRecordedMinimum,
        creates: CreateRule::AnyRange,
        unseen: Self::NOMAD.unseen,
    };

    /// A Nomad server of that version (`nomad-http-api` 8).
    pub fn of_nomad(version: &ServerVersion) -> Self {
        let (minor, patch) = (version.minor, version.patch);
        let keeps_context = match (version.major, minor) {
            (0, _) | (1, 0..=6) => false,
            (1, 7) => patch >= 18,
            (1, 8) => patch >= 10,
            (1, 9) => patch >= 6,
            (_, _) => true,
        };
        let update = if version.is_at_least(1, 6, 3) {
            UpdateRule::FieldByField
        } else if version.is_at_least(1, 3, 0) {
            UpdateRule::WhileUnused
        } else {
            UpdateRule::Overwrite
        };
        Self {
            update,
            omitted_context: if keeps_context {
                OmittedMap::Keep
            } else {
                OmittedMap::Wipe
            },
            creates: if version.is_at_least(1, 6, 3) {
                CreateRule::AnyRange
            } else {
                CreateRule::WithMaximum
            },
            unseen: Unseen::of_nomad(version),
            ..Self::NOMAD
        }
    }
}

impl Unseen {
    fn of_nomad(version: &ServerVersion) -> Self {
        let shows_sizes = match (version.major, version.minor) {
            (0, _) | (1, 0) => false,
            (1, 1) => version.patch >= 13,
            (1, 2) => version.patch >= 7,
            (_, _) => true,
        };
        Self {
            sizes: !shows_sizes,
            mount_options: !version.is_at_least(1, 3, 0),
            topology_request: !version.is_at_least(1, 3, 0),
        }
    }

    /// The keys of these fields in a specification.
    pub fn fields(self) -> Vec<&'static str> {
        let mut fields = vec![];
        if self.sizes {
            fields.extend([
                "capacity_min",
                "capacity_max",
                "capability",
                "clone_id",
                "snapshot_id",
            ]);
        }
        if self.mount_options {
            fields.push("mount_options");
        }
        if self.topology_request {
            fields.push("topology_request");
        }
        fields
    }

    /// The volume with what is not shown taken as it is wanted: then it is no difference.
    pub(super) fn filled_in<'a>(
        self,
        volume: &'a Volume,
        wanted: &WantedRequest,
    ) -> Cow<'a, Volume> {
        if self == Self::default() {
            return Cow::Borrowed(volume);
        }
        let mut volume = volume.clone();
        if self.sizes {
            volume.capabilities.clone_from(&wanted.capabilities);
            volume.requested_capacity = wanted.capacity;
            volume.clone_id.clone_from(&wanted.clone_id);
            volume.snapshot_id.clone_from(&wanted.snapshot_id);
        }
        if self.mount_options {
            volume.mount_options = Some(wanted.mount_options.clone().unwrap_or_default());
        }
        if self.topology_request {
            volume.topology_request.clone_from(&wanted.topology_request);
        }
        Cow::Owned(volume)
    }
}

/// What is to be said of a plan for a Nomad of that version, or of one that does not say it.
pub fn rules_remark(version: Option<&ServerVersion>) -> Option<Diagnostic> {
    let Some(version) = version else {
        let message = "the server does not say its version, so the plan is made for the strictest";
        return Some(
            Diagnostic::warning(Code::PlanUnknownVersion, message)
                .note("every refusal and every loss of any Nomad since 1.3 is expected, also those that later versions do not know")
                .help("use a token with `agent { policy = \"read\" }`, or say `--server-version`"),
        );
    };
    let fields = Unseen::of_nomad(version).fields();
    if fields.is_empty() {
        return None;
    }
    let message = format!(
        "Nomad {version} does not show everything of a volume: differences in {} are not found",
        fields.join(", ")
    );
    Some(
        Diagnostic::warning(Code::PlanUnseenField, message)
            .note("an update puts what the file says in their place, also if that is nothing")
            .help(
                "look for yourself whether they are as they are wanted; later versions show them",
            ),
    )
}

#[cfg(test)]
mod tests;

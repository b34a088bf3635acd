//! The input of a plan, and the plan with its input.

use crate::ports::ServerKind;
use crate::reconcile::observe::Observation;
use crate::reconcile::unread_volumes::NamespaceLists;
use nomad_csi_model::ServerVersion;
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_plan::{Approvals, CutOffs, LedgerSet, MergeRules, Plan, PlanOptions};
use nomad_csi_spec::Purpose;

use super::specifications::Specifications;

/// The options of the command line besides the files.
#[derive(Clone, Debug, Default)]
pub struct ChangeOptions {
    /// The server's version, if it is given rather than read.
    pub server_version: Option<ServerVersion>,
    /// Changes that the files alone do not request.
    pub plan: PlanOptions,
    /// Risks that are approved.
    pub approvals: Approvals,
    /// True for one run of several: an approval may be meant for another one.
    pub is_one_of_several: bool,
}

/// The input of a plan.
pub struct PlanRequest<'a> {
    /// The desired volumes.
    pub specifications: &'a Specifications,
    /// The purpose of the volumes.
    pub purpose: Purpose,
    /// The options besides the files.
    pub options: ChangeOptions,
    /// True if the server's own JSON of the volumes is kept.
    pub keeps_documents: bool,
    /// True if every volume of the set is read, even if neither a file names it nor it would be removed.
    pub reads_whole_set: bool,
    /// Which providers are asked for their volumes.
    pub provider_check: ProviderCheck,
    /// The set in the ledger; `None` if no set owns the volumes.
    pub set: Option<&'a LedgerSet>,
    /// Which volumes are read.
    pub reading: Reading,
}

/// Which volumes a plan reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// All.
    Everything,
    /// Those that the plan may not leave unchanged, by the notes of the set and these lists; see
    /// [`nomad_csi_plan::cached_volumes`].
    WhatMayHaveChanged(NamespaceLists),
}

/// Which providers a plan asks for their volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderCheck {
    /// Those that may have the data of an owned volume whose registration is gone or changed.
    WhenRequired,
    /// All that list volumes.
    Always,
}

/// A plan with what it was made from.
#[derive(Debug)]
pub struct PreparedPlan {
    /// The plan.
    pub plan: Plan,
    /// The state that was read from the server.
    pub observation: Observation,
    /// How the server merges updates.
    pub rules: MergeRules,
    /// The kind of the server.
    pub server: ServerKind,
    /// The approved cut-offs.
    pub cut_off: CutOffs,
}

impl PreparedPlan {
    /// Returns warnings and the reasons why volumes are blocked, in one list.
    pub fn diagnostics(&self) -> Diagnostics {
        let mut diagnostics = self.plan.remarks.clone();
        for planned in &self.plan.volumes {
            diagnostics.extend(planned.warnings.iter().cloned());
            diagnostics.extend(planned.action.reasons().iter().cloned());
        }
        diagnostics.into_iter().collect()
    }
}

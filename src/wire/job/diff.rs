//! The difference between a registered job and a new one, in the response to a plan.
//!
//! `Type` is `None`, `Added`, `Deleted` or `Edited`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The difference of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDiffDocument {
    /// The fields that differ.
    pub fields: Option<Vec<FieldDiffDocument>>,
    /// The job's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The blocks that differ.
    pub objects: Option<Vec<ObjectDiffDocument>>,
    /// The groups.
    pub task_groups: Option<Vec<GroupDiffDocument>>,
    /// How the job differs.
    #[serde(rename = "Type")]
    pub diff_type: String,
}

/// The difference of a task group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct GroupDiffDocument {
    /// The fields that differ.
    pub fields: Option<Vec<FieldDiffDocument>>,
    /// The group's name.
    pub name: String,
    /// The blocks that differ.
    pub objects: Option<Vec<ObjectDiffDocument>>,
    /// The tasks.
    pub tasks: Option<Vec<TaskDiffDocument>>,
    /// How the group differs.
    #[serde(rename = "Type")]
    pub diff_type: String,
    /// The number of allocations per change: `create`, `ignore` and others.
    pub updates: Option<BTreeMap<String, u64>>,
}

/// The difference of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskDiffDocument {
    /// The effects of the change, such as `forces create`.
    pub annotations: Option<Vec<String>>,
    /// The fields that differ.
    pub fields: Option<Vec<FieldDiffDocument>>,
    /// The task's name.
    pub name: String,
    /// The blocks that differ.
    pub objects: Option<Vec<ObjectDiffDocument>>,
    /// How the task differs.
    #[serde(rename = "Type")]
    pub diff_type: String,
}

/// The difference of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ObjectDiffDocument {
    /// The fields that differ.
    pub fields: Option<Vec<FieldDiffDocument>>,
    /// The block's name.
    pub name: String,
    /// The blocks in it that differ.
    pub objects: Option<Vec<ObjectDiffDocument>>,
    /// How the block differs.
    #[serde(rename = "Type")]
    pub diff_type: String,
}

/// The difference of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct FieldDiffDocument {
    /// The effects of the change.
    pub annotations: Option<Vec<String>>,
    /// The field's name.
    pub name: String,
    /// The new value; empty if there is none.
    pub new: String,
    /// The old value; empty if there was none.
    pub old: String,
    /// How the field differs.
    #[serde(rename = "Type")]
    pub diff_type: String,
}

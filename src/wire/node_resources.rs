//! The resources of a node, and the part of them that jobs cannot use.

use serde::{Deserialize, Serialize};

/// The resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeResourcesDocument {
    /// The processors.
    pub cpu: NodeCpuDocument,
    /// The disk.
    pub disk: NodeDiskDocument,
    /// The memory.
    pub memory: NodeMemoryDocument,
}

/// The part of a node's resources that jobs cannot use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeReservedDocument {
    /// The processors.
    pub cpu: NodeCpuDocument,
    /// The disk.
    pub disk: NodeDiskDocument,
    /// The memory.
    pub memory: NodeMemoryDocument,
    /// The ports.
    pub networks: NodePortsDocument,
}

/// The processors of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeCpuDocument {
    /// Processor time in MHz.
    pub cpu_shares: i64,
    /// The number of cores.
    pub total_cpu_cores: i64,
}

/// The memory of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeMemoryDocument {
    /// Memory in MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
}

/// The disk of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeDiskDocument {
    /// Space in MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
}

/// The ports of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodePortsDocument {
    /// Ports and ranges, such as `22,8000-8010`.
    pub reserved_host_ports: String,
}

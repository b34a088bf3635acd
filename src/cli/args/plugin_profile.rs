//! Arguments that select the capabilities and faults of the embedded plugin.

use clap::Args;

/// Defines the arguments of a plugin profile: without a prefix for `plugin serve`, with a prefix for
/// the agent that starts the plugin.
macro_rules! plugin_profile_args {
    ($name:ident, $prefix:literal, $heading:literal) => {
        /// The capabilities and faults of the plugin.
        #[derive(Args, Clone, Debug, Default)]
        #[command(next_help_heading = $heading)]
        pub(crate) struct $name {
            /// Backing of file system volumes: auto, image or directory [default: auto]
            ///
            /// An image has its own file system and the requested size. It needs loop devices, which
            /// require root. A directory does not limit its size. auto selects an image if loop
            /// devices are available and the request names a size or a file system.
            #[arg(long = concat!($prefix, "backing"), value_name = "KIND")]
            pub backing: Option<String>,
            /// Allow volumes to exceed the free space of the file system
            #[arg(long = concat!($prefix, "overcommit"))]
            pub overcommit: bool,
            /// Remove a capability, such as LIST_VOLUMES; repeatable
            ///
            /// Without CONTROLLER_SERVICE, the plugin runs on nodes only; without NODE_SERVICE, it is
            /// a controller only. Without STAGE_UNSTAGE_VOLUME, it publishes volumes directly.
            /// Without CONFIRMED, it validates volumes and never confirms them. The error for an
            /// unknown name lists all names.
            #[arg(long = concat!($prefix, "without"), value_name = "CAPABILITY")]
            pub without: Vec<String>,
            /// Require ControllerPublishVolume before a volume is used
            #[arg(long = concat!($prefix, "attach"))]
            pub attach: bool,
            /// Require ControllerPublishVolume and limit the volumes attached to a node
            #[arg(long = concat!($prefix, "attach-limit"), value_name = "NUMBER")]
            pub attach_limit: Option<u32>,
            /// Topology segment of the volumes, such as topology.example/zone=a; repeatable
            #[arg(long = concat!($prefix, "topology"), value_name = "KEY=VALUE")]
            pub topology: Vec<String>,
            /// Inject a fault into an RPC, such as NodeStageVolume:UNAVAILABLE:2; repeatable
            ///
            /// RPC is the name of an RPC or `*`. FAULT is a gRPC status code, `delay=200ms`,
            /// `lose-reply` (completes the call, then returns UNAVAILABLE), `hang`, `crash` or
            /// `crash-after` (completes the call, then crashes). TIMES limits the number of faults;
            /// crashes are counted across restarts. [default: every call] With `health` as the RPC,
            /// the plugin reports a condition that does not exist: `health:data-missing`,
            /// `data-truncated`, `device-lost`, `file-system-errors`, `read-only`, `no-space` or
            /// `storage-failed`.
            #[arg(long = concat!($prefix, "fault"), value_name = "RPC:FAULT[:TIMES]")]
            pub fault: Vec<String>,
        }

        impl From<&$name> for crate::agent::ProfileOptions {
            fn from(arguments: &$name) -> Self {
                Self {
                    backing: arguments.backing.clone(),
                    overcommit: arguments.overcommit,
                    without: arguments.without.clone(),
                    attach: arguments.attach,
                    attach_limit: arguments.attach_limit,
                    topology: arguments.topology.clone(),
                    fault: arguments.fault.clone(),
                }
            }
        }
    };
}

plugin_profile_args!(PluginProfileArgs, "", "Plugin profile");
plugin_profile_args!(AgentProfileArgs, "plugin-", "Profile of the embedded plugin");

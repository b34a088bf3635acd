use std::path::Path;

use super::plugin_paths::PluginDirectories;
use nomad_csi_model::{CsiPluginConfig, CsiPluginType};

fn directories() -> PluginDirectories {
    PluginDirectories { sockets: "/run/agent".into(), volumes: "/data/mounts".into() }
}

#[test]
fn a_task_without_a_root_of_its_own_sees_the_paths_of_the_host() {
    let config = CsiPluginConfig::new("ebs".into(), CsiPluginType::Node);
    let paths = directories().paths(&"alloc-1".into(), &config, false);
    assert_eq!(paths.mounts(), []);
    assert_eq!(paths.volumes_in_task(), None);
    let socket = paths.socket();
    assert_eq!(paths.endpoint(), format!("unix://{}", socket.display()));
    assert_eq!(paths.volumes(), Path::new("/data/mounts/ebs"));
}

/// The socket of every allocation has a path of its own, which is short.
#[test]
fn sockets_have_short_names_that_differ() {
    let config = CsiPluginConfig::new("a-plugin-with-a-long-name".into(), CsiPluginType::Node);
    let socket = |alloc: &str| directories().paths(&alloc.into(), &config, true).socket();
    let first = socket("8f3a1c52-0000-4000-8000-000000000001");
    assert_ne!(first, socket("8f3a1c52-0000-4000-8000-000000000002"));
    assert_eq!(first.as_os_str().len(), "/run/agent/0123456789ab/csi.sock".len());
}

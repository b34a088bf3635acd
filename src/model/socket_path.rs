//! The path of a Unix socket in the spelling of a CSI endpoint.
//!
//! CSI names no format for `CSI_ENDPOINT`; plugins and tools write `unix:///run/csi.sock`, `unix:/run/csi.sock` and the bare
//! path. All of them are one endpoint, wherever this program takes one.

use std::path::Path;

/// Returns the path that an endpoint names, which may be relative; `None` if it names no path, or another kind of socket.
pub fn socket_path(endpoint: &str) -> Option<&Path> {
    let path = match endpoint.strip_prefix("unix:") {
        Some(path) => path.strip_prefix("//").unwrap_or(path),
        None => endpoint,
    };
    let is_path = !path.is_empty() && !path.contains("://");
    is_path.then(|| Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_socket_is_one_path() {
        for endpoint in ["unix:///run/csi.sock", "unix:/run/csi.sock", "/run/csi.sock"] {
            assert_eq!(socket_path(endpoint), Some(Path::new("/run/csi.sock")), "{endpoint}");
        }
        for endpoint in ["unix://csi.sock", "unix:csi.sock", "csi.sock"] {
            assert_eq!(socket_path(endpoint), Some(Path::new("csi.sock")), "{endpoint}");
        }
        for endpoint in ["", "unix:", "unix://", "tcp://127.0.0.1:1", "unix://tcp://a"] {
            assert_eq!(socket_path(endpoint), None, "{endpoint}");
        }
    }
}

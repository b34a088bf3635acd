//! Arguments of Terraform in a volume, and what a specification has in their place.

/// Returns what to do about an argument of Terraform that is no field of a volume.
pub(super) fn terraform_key(key: &str) -> Option<&'static str> {
    Some(match key {
        "lifecycle" => {
            "write `protect = true` for `prevent_destroy`, and `ignore = [\"FIELD\"]` for `ignore_changes`"
        }
        "depends_on" => "remove it: no volume has to wait for another one",
        "provider" => "remove it: `--address`, NOMAD_ADDR or a context names the server",
        "dynamic" => {
            "write each block, or a list of blocks: `capability = [for x in LIST : { access_mode = x, attachment_mode = \"file-system\" }]`"
        }
        "deregister_on_destroy" => {
            "remove it: no volume is deregistered without `apply --prune` or `volume deregister`"
        }
        "timeouts" => "remove it: a specification has no time limits",
        "provisioner" | "connection" => "remove it: a specification runs no programs",
        _ => return None,
    })
}

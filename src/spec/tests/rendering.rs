//! Evaluated volumes are printed as literal ones that mean the same.

use super::harness::code;
use crate::defaults::Defaults;
use crate::encode::{WritableSpec, encode_all};
use crate::language::GivenVariables;
use crate::parse::read;
use crate::syntax::Syntax;
use crate::volume_spec::VolumeSpec;
use nomad_csi_model::diagnostic::{Diagnostics, SourceMap};
use nomad_csi_model::{Secret, SetName};

const FLEET: &str = r#"
set = "web-${var.env}"
variable "env" { default = "prod" }
variable "key" {
  type      = string
  sensitive = true
}
variable "sizes" {
  default = { eu = "5GiB", us = "6GiB" }
}
class "fast" {
  plugin_id  = "ceph-${var.env}"
  parameters = { pool = "nvme", text = "$${literal} %%{x}" }
}
defaults {
  type   = "csi"
  class  = "fast"
  ignore = ["context"]
  capability {
    access_mode     = "multi-node-reader-only"
    attachment_mode = "file-system"
  }
}
volume "pg" {
  count            = 3
  capacity_min     = "10GiB"
  protect          = count.index == 0
  read_only        = true
  topology_request = { required = [{ segments = { zone = "z${count.index}" } }] }
  secrets { a = env("A"), b = nomad_var("ceph/${var.env}", "key"), c = file("keys/${count.index}") }
}
volume "shard" {
  for_each     = var.sizes
  capacity_min = each.value
  secrets      = unknown
  parameters   = { pool = null, shard = each.key }
}
volume "one" {
  namespace = "other"
  class     = null
  plugin_id = "p"
  name      = "one"
  secrets {}
}
"#;

/// Reads one text, and returns its volumes, its set and its problems.
fn volumes(text: &str, syntax: Syntax) -> (Vec<VolumeSpec>, Option<SetName>, Vec<String>) {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    let source = sources.add("file", text);
    let key = ("key".to_owned(), Secret::new("hunter2".to_owned()));
    let given = GivenVariables { environment: [key].into(), ..GivenVariables::default() };
    let files = [(source, syntax)];
    let parsed = read(&mut sources, &files, &given, &Defaults::default(), &mut diagnostics);
    let set = parsed.sets.into_iter().next().map(|(set, _)| set);
    (parsed.volumes, set, diagnostics.iter().map(code).collect())
}

#[test]
fn printed_volumes_are_read_as_the_evaluated_ones_in_every_syntax() {
    let (evaluated, set, problems) = volumes(FLEET, Syntax::Hcl);
    assert_eq!((evaluated.len(), problems), (6, vec![]));
    let written: Vec<_> = evaluated.iter().map(WritableSpec::without_values).collect();
    for syntax in Syntax::ALL {
        let text = encode_all(&written, set.as_ref(), syntax);
        let (read, read_set, problems) = volumes(&text, syntax);
        assert_eq!(problems, Vec::<String>::new(), "{text}");
        assert_eq!(read_set, set);
        for of in &evaluated {
            let same =
                read.iter().find(|one| one.key() == of.key()).expect("the volume is printed");
            assert_eq!(same.request, of.request, "{text}");
            assert_eq!(
                (same.protect, same.read_only, &same.ignore, &same.unknown),
                (of.protect, of.read_only, &of.ignore, &of.unknown),
                "{text}"
            );
        }
        assert_eq!(read.len(), evaluated.len());
    }
}

#[test]
fn a_value_that_is_not_printed_is_refused_by_every_reader() {
    let hidden = [
        "secrets { a = \"hunter2\" }",
        "secrets { a = var.key }",
        "secrets { a = \"x-${var.key}\" }",
        "mount_options { mount_flags = [\"password=hunter2\"] }",
        "mount_options { mount_flags = [\"a\", var.key] }",
    ];
    for field in hidden {
        let text = FLEET.replace("secrets {}", field);
        let (evaluated, set, problems) = volumes(&text, Syntax::Hcl);
        assert_eq!((evaluated.len(), problems), (6, vec![]), "{field}");
        let written: Vec<_> = evaluated.iter().map(WritableSpec::without_values).collect();
        for syntax in Syntax::ALL {
            let text = encode_all(&written, set.as_ref(), syntax);
            assert!(!text.contains("hunter2"), "{text}");
            let (_, _, problems) = volumes(&text, syntax);
            assert!(problems.iter().any(|code| !code.starts_with('?')), "{problems:?}: {text}");
        }
    }
}

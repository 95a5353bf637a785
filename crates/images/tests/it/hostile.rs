//! Archives that try to write outside the root or to exhaust resources. Each is refused, or affects only the
//! inside of the root.

use std::fs;
use std::os::unix::fs::MetadataExt;

use images::UnpackLimits;
use tar::EntryType;

use crate::fixtures::{
    ImportFixture, LayerBuilder, docker_files, error_chain, gzip, listing, oci_files, tar_of, zstd,
};

/// Imports layers. Returns the listing of the root, or the error.
fn import_result(layers: Vec<LayerBuilder>) -> String {
    let scene = ImportFixture::new();
    let layers: Vec<Vec<u8>> = layers.into_iter().map(LayerBuilder::end).collect();
    match scene.import(&tar_of(&docker_files(&layers))) {
        Ok(image) => {
            scene.assert_untouched();
            listing(&image.root)
        }
        Err(error) => {
            scene.assert_nothing_left();
            format!("refused: {}", error_chain(&error))
        }
    }
}

#[track_caller]
fn check(layers: impl IntoIterator<Item = LayerBuilder>, expected: &str) {
    assert_eq!(import_result(layers.into_iter().collect()), expected);
}

fn layer() -> LayerBuilder {
    LayerBuilder::default()
}

#[test]
fn names_that_lead_out() {
    let refused = |name: &str| {
        format!(
            "refused: cannot accept layer 1 of 1: the entry `{name}` is refused: its name has `..` in it"
        )
    };
    for name in [
        "../x",
        "a/../../x",
        "..",
        "a/..",
        "/../x",
        "./../x",
        "/..//x",
    ] {
        check([layer().file(name, "")], &refused(name));
        check([layer().folder(name)], &refused(name));
        check([layer().symlink(name, "x")], &refused(name));
    }
    // An absolute name is relative to the root of the image, not of the host.
    check(
        [layer().file("/tmp-hotcell/x", "in")],
        "tmp-hotcell/ 755\ntmp-hotcell/x 644 in",
    );
    check([layer().file("//x", "in")], "x 644 in");
    check([layer().file("./././x", "in")], "x 644 in");
    check(
        [layer().raw("", EntryType::Regular, "", 0o644, b"")],
        "refused: cannot accept layer 1 of 1: the entry `` is refused: its name is the root itself and not a folder",
    );
    check([layer().folder("./").file("x", "in")], "x 644 in");
}

#[test]
fn links_that_lead_out() {
    let scene = ImportFixture::new();
    let out = scene.outside();
    let out = out.to_str().unwrap();
    // A link may have any target, but names that go through it stay inside the root.
    check(
        [layer()
            .symlink("a", "../../../../etc")
            .file("a/passwd", "mine")],
        "refused: cannot accept layer 1 of 1: the entry `a/passwd` is refused: its name goes through a dangling link",
    );
    check(
        [layer()
            .folder("etc")
            .symlink("a", "../../../../etc")
            .file("a/passwd", "mine")],
        "a -> ../../../../etc\netc/ 755\netc/passwd 644 mine",
    );
    check(
        [layer().symlink("a", out).file("a/secret", "overwritten")],
        "refused: cannot accept layer 1 of 1: the entry `a/secret` is refused: its name goes through a dangling link",
    );
    // The last component is never followed: the link itself is replaced.
    check(
        [layer().symlink("a", "/etc/passwd").file("a", "mine")],
        "a 644 mine",
    );
    check(
        [layer().symlink("a", "/etc").folder("a").file("a/b", "mine")],
        "a/ 755\na/b 644 mine",
    );
    // Replaced between layers.
    check(
        [
            layer().folder("a").file("a/b", "old"),
            layer().symlink("a", "/usr"),
            layer().folder("usr").file("a/c", "new"),
        ],
        "a -> /usr\nusr/ 755\nusr/c 644 new",
    );
    check(
        [layer().symlink("a", "b").symlink("b", "a").file("a/x", "")],
        "refused: cannot accept layer 1 of 1: the entry `a/x` is refused: its name goes through a loop of links",
    );
    check(
        [layer().symlink("p", "/proc/self/root").file("p/tmp/x", "")],
        "refused: cannot accept layer 1 of 1: the entry `p/tmp/x` is refused: its name goes through a dangling link",
    );
    check(
        [layer().file("a", "").file("a/b", "")],
        "refused: cannot accept layer 1 of 1: the entry `a/b` is refused: its name goes through something that is not a folder",
    );
    check(
        [layer().symlink("a", "")],
        "refused: cannot accept layer 1 of 1: the entry `a` is refused: the link has no target",
    );
}

#[test]
fn hard_links_that_lead_out() {
    let refused = |why: &str| {
        format!("refused: cannot accept layer 1 of 1: the entry `a` is refused: the link {why}")
    };
    check(
        [layer().hard_link("a", "/etc/passwd")],
        &refused("points to a missing file"),
    );
    check(
        [layer().hard_link("a", "../../secret")],
        &refused("leads out of the root"),
    );
    check(
        [layer().hard_link("a", "")],
        &refused("points to the root itself"),
    );
    check(
        [layer().folder("d").hard_link("a", "d")],
        &refused("does not point to a file"),
    );
    // A hard link to a symbolic link that leads out is another such link. It is not followed.
    check(
        [layer()
            .symlink("l", "/etc/passwd")
            .hard_link("a", "l")
            .file("a", "mine")],
        "a 644 mine\nl -> /etc/passwd",
    );
    // A hard link through a symbolic link that leads out finds no target.
    check(
        [layer().symlink("l", "/etc").hard_link("a", "l/passwd")],
        &refused("points to a missing file"),
    );
    check(
        [layer()
            .file("x", "one")
            .hard_link("a", "x")
            .hard_link("a", "a")],
        "a 644 one\nx 644 one",
    );
}

#[test]
fn a_file_with_two_names_is_one_file_until_one_is_replaced() {
    let scene = ImportFixture::new();
    let first = layer().file("x", "one").hard_link("y", "/x").end();
    let second = layer().file("y", "two").end();
    let image = scene
        .import(&tar_of(&docker_files(std::slice::from_ref(&first))))
        .unwrap();
    let inode = |name: &str| fs::metadata(image.root.join(name)).unwrap().ino();
    assert_eq!(inode("x"), inode("y"));
    let image = scene
        .import(&tar_of(&docker_files(&[first, second])))
        .unwrap();
    assert_eq!(listing(&image.root), "x 644 one\ny 644 two");
}

#[test]
fn rights_that_nothing_may_have() {
    check(
        [layer()
            .raw("su", EntryType::Regular, "", 0o6755, b"")
            .raw("d", EntryType::Directory, "", 0o3000, b"")
            .raw("t", EntryType::Directory, "", 0o1777, b"")
            .raw("d/locked", EntryType::Regular, "", 0, b"")],
        "d/ 1700\nd/locked 600 \nsu 755 \nt/ 1777",
    );
}

#[test]
fn devices_are_left_out_and_counted() {
    let scene = ImportFixture::new();
    let layer = layer()
        .raw("null", EntryType::Char, "", 0o666, b"")
        .raw("disk", EntryType::Block, "", 0o666, b"")
        .raw("pipe", EntryType::Fifo, "", 0o666, b"")
        .file("file", "");
    let image = scene
        .import(&tar_of(&docker_files(&[layer.end()])))
        .unwrap();
    assert_eq!(listing(&image.root), "file 644 ");
    assert_eq!(image.skipped, 3);
}

#[test]
fn absurd_names() {
    let long = "x".repeat(256);
    let deep = vec!["d"; 201].join("/");
    let endless = vec!["x".repeat(200); 20].join("/");
    for (name, why) in [(&long, "long"), (&deep, "deep"), (&endless, "long")] {
        let said = import_result(vec![layer().file(name, "")]);
        assert!(said.ends_with(&format!("its name is too {why}")), "{said}");
    }
    // Each name is short, but starts with a link to the folder of the one before.
    let path = vec!["d"; 150].join("/");
    let nested = layer()
        .folder(&path)
        .symlink("here", &path)
        .folder(&format!("here/{path}"));
    let said = import_result(vec![nested]);
    assert!(said.ends_with("its name is too deep"), "{said}");
    let said = import_result(vec![
        layer()
            .extension(EntryType::XHeader, b"12 path=a\0b\n")
            .file("x", ""),
    ]);
    assert!(said.ends_with("its name contains a NUL byte"), "{said}");
    check(
        [layer().file("a\nb\u{1b}[31m", "odd")],
        "a\nb\u{1b}[31m 644 odd",
    );
}

#[test]
fn what_is_not_a_tar() {
    let cut = {
        let whole = layer().file("x", &"y".repeat(2000)).0;
        LayerBuilder(whole[..1000].to_vec())
    };
    let mut wrong = layer().file("x", "");
    wrong.0[3] ^= 1;
    let huge = layer().extension(EntryType::GNULongName, &vec![b'a'; 2 << 20]);
    let lonely = layer().extension(EntryType::GNULongName, b"name");
    let sparse = layer().extension(EntryType::XHeader, b"22 GNU.sparse.major=1\n");
    for (layer, why) in [
        (cut, "not a whole tar: it is cut off"),
        (wrong, "not a whole tar: the checksum of a header is wrong"),
        (
            huge,
            "not a whole tar: a name or an extended header is too long",
        ),
        (lonely, "not a whole tar: it ends after an extended header"),
        (
            LayerBuilder(vec![7; 3000]),
            "not a whole tar: the checksum of a header is wrong",
        ),
        (
            LayerBuilder(vec![7; 100]),
            "not a whole tar: it is cut off in a header",
        ),
        (
            sparse.file("x", ""),
            "it has a sparse file in pax format, which is not supported",
        ),
        (
            layer().raw("x", EntryType::new(b'M'), "", 0, b""),
            "it has an entry of an unknown kind, which is not supported",
        ),
    ] {
        let scene = ImportFixture::new();
        let error = scene
            .import(&tar_of(&docker_files(&[layer.0])))
            .unwrap_err();
        assert!(
            error_chain(&error).ends_with(why),
            "{}",
            error_chain(&error)
        );
        scene.assert_nothing_left();
    }
}

#[test]
fn sparse_files() {
    let sparse = |real: u64, pieces: &[(u64, u64)], content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_path("s").unwrap();
        header.set_entry_type(EntryType::GNUSparse);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        let gnu = header.as_gnu_mut().unwrap();
        let octal = |field: &mut [u8; 12], number: u64| {
            field.copy_from_slice(format!("{number:011o}\0").as_bytes());
        };
        octal(&mut gnu.realsize, real);
        for (field, (offset, length)) in gnu.sparse.iter_mut().zip(pieces) {
            octal(&mut field.offset, *offset);
            octal(&mut field.numbytes, *length);
        }
        header.set_cksum();
        layer().block(header.as_bytes(), content)
    };
    check(
        [sparse(8, &[(1, 2), (6, 1)], b"abc")],
        "s 644 \0ab\0\0\0c\0",
    );
    let broken = "refused: cannot accept layer 1 of 1: it is not a whole tar: the map of a sparse file is broken";
    check([sparse(8, &[(6, 2), (1, 1)], b"abc")], broken);
    check([sparse(8, &[(6, 3)], b"abc")], broken);
    check([sparse(8, &[(1, 2)], b"abc")], broken);
    check([sparse(8, &[(0o777_7777_7777, 3)], b"abc")], broken);
    // Holes count, because a disk or an archive of the image may have them filled.
    let said = import_result(vec![sparse((8 << 30) - 1, &[], b""); 5]);
    assert!(
        said.ends_with("it unpacks to more than 34359738368 bytes"),
        "{said}"
    );
}

#[test]
fn bombs() {
    let small = UnpackLimits {
        bytes: 64 << 20,
        entries: 100,
        ratio: 50,
        layers: 3,
    };
    let zeros = layer().file("z", &"\0".repeat(32 << 20)).end();
    let many = (0..101).fold(layer(), |layer, number| layer.folder(&format!("d{number}")));
    let trailing = {
        // Any data may follow the end of the archive. It is read for the digest.
        let mut bytes = layer().file("x", "").end();
        bytes.resize(70 << 20, 0);
        bytes
    };
    let few = layer().file("x", "").end();
    for (layers, pack, ending, why) in [
        (
            vec![zeros.clone()],
            gzip as fn(&[u8]) -> Vec<u8>,
            "+gzip",
            "50 times its size",
        ),
        (vec![zeros.clone()], zstd, "+zstd", "50 times its size"),
        (
            vec![zeros.clone(); 3],
            <[u8]>::to_vec,
            "",
            "more than 67108864 bytes",
        ),
        (
            vec![many.end()],
            <[u8]>::to_vec,
            "",
            "more than 100 entries",
        ),
        (
            vec![trailing],
            <[u8]>::to_vec,
            "",
            "more than 67108864 bytes",
        ),
        (
            vec![few; 4],
            <[u8]>::to_vec,
            "",
            "it has 4 layers, and 3 are allowed",
        ),
    ] {
        let scene = ImportFixture::new().with_limits(small);
        let archive = tar_of(&oci_files(&layers, pack, ending));
        let error = scene.import(&archive).unwrap_err();
        assert!(
            error_chain(&error).ends_with(why),
            "{}",
            error_chain(&error)
        );
        scene.assert_nothing_left();
    }
    // The limits also apply if the whole archive is compressed.
    let scene = ImportFixture::new().with_limits(small);
    let archive = gzip(&tar_of(&docker_files(&[zeros])));
    let error = scene.import(&archive).unwrap_err();
    assert!(
        error_chain(&error).ends_with("50 times its size"),
        "{}",
        error_chain(&error)
    );
    scene.assert_nothing_left();
}

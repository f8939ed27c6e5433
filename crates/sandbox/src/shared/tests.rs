use std::io::ErrorKind;

use rustix::fs::{SealFlags, fcntl_add_seals, ftruncate};

use super::{Arena, Region, View, map::Map};

const SIZE: usize = 64 << 10;

#[test]
fn what_one_side_writes_the_other_reads() {
    let region = Region::new(SIZE).unwrap();
    let (arena, view) = (Arena::over(&region).unwrap(), View::over(&region).unwrap());
    let mut first = arena.block(5000).unwrap();
    let mut second = arena.block(10).unwrap();
    assert!(first.push(b"one ") && first.push(b"text") && second.push(b"another"));
    assert_eq!(arena.find(&first.as_ref()[4..]), Some(first.offset() + 4));
    assert_eq!(arena.find(b"elsewhere"), None);
    let mut copy = b"a copy of ".to_vec();
    assert!(view.copy(first.offset(), 8, &mut copy));
    assert_eq!(copy, b"a copy of one text");
    assert_eq!(view.slice(second.offset(), 7).unwrap().as_ref(), b"another");
}

#[test]
fn a_block_takes_no_more_than_it_has_room_for() {
    let arena = Arena::over(Region::new(SIZE).unwrap()).unwrap();
    let mut block = arena.block(4).unwrap();
    assert!(!block.push(b"12345"));
    assert!(block.push(b"1234"));
    assert!(!block.push(b"5"));
    assert_eq!(block.as_ref(), b"1234");
    assert!(block.spare().is_empty());
    let mut other = arena.block(6).unwrap();
    assert!(other.push(b"ab"));
    other.spare()[..2].copy_from_slice(b"cd");
    other.advance(2);
    assert_eq!(
        (other.as_ref(), arena.find(other.as_ref())),
        (b"abcd".as_slice(), Some(other.offset()))
    );
    other.advance(100);
    assert_eq!(other.as_ref().len(), 6);
    drop(other);
    assert!(arena.block(SIZE).is_none());
    drop(block);
    assert!(arena.block(SIZE).is_some());
}

#[test]
fn nothing_outside_the_region_is_read() {
    let region = Region::new(SIZE).unwrap();
    let view = View::over(&region).unwrap();
    let mut copy = Vec::new();
    for (offset, bytes) in [(SIZE, 1), (0, SIZE + 1), (usize::MAX, 2), (1, usize::MAX)] {
        assert!(!view.copy(offset, bytes, &mut copy) && view.slice(offset, bytes).is_none());
    }
    assert!(copy.is_empty());
    assert!(view.copy(SIZE, 0, &mut copy));
}

#[test]
fn nobody_can_cut_a_region_off() {
    let region = Region::new(SIZE).unwrap();
    assert!(ftruncate(&region, 0).is_err());
    assert!(ftruncate(&region, 2 * SIZE as u64).is_err());
    let file = tempfile::tempfile().unwrap();
    assert!(View::over(&file).is_err());
    let bare = rustix::fs::memfd_create(c"bare", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&bare, SIZE as u64).unwrap();
    assert_eq!(
        View::over(&bare).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn readers_of_a_sealed_region_cannot_write() {
    let region = Region::new(SIZE).unwrap();
    let arena = Arena::over(&region).unwrap();
    region.seal_for_readers().unwrap();
    assert!(Map::new(std::os::fd::AsFd::as_fd(&region), true).is_err());
    assert!(rustix::io::pwrite(&region, b"x", 0).is_err());
    assert!(fcntl_add_seals(&region, SealFlags::WRITE).is_err());
    let mut block = arena.block(1).unwrap();
    assert!(block.push(b"w"));
    assert_eq!(
        View::over(&region)
            .unwrap()
            .slice(block.offset(), 1)
            .unwrap()
            .as_ref(),
        b"w"
    );
}

#[test]
fn an_arena_without_blocks_gives_its_memory_back() {
    let region = Region::new(SIZE).unwrap();
    let arena = Arena::over(&region).unwrap();
    let used = || rustix::fs::fstat(&region).unwrap().st_blocks;
    let mut block = arena.block(SIZE).unwrap();
    assert!(block.push(&[1; SIZE]));
    arena.trim();
    assert!(used() > 0);
    drop(block);
    arena.trim();
    assert_eq!(used(), 0);
}

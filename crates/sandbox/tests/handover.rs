//! Descriptors from hand to hand.
#![cfg(test)]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use sandbox::handover::{MAX_BYTES, MAX_FDS, PacketError, pair};
use sandbox::inspect;

fn open_descriptors() -> usize {
    inspect::descriptors_of(std::process::id()).unwrap().len()
}

/// One test, because it counts the descriptors of the whole process.
#[test]
fn packets() {
    a_pipe_travels_with_its_tag_and_bytes();
    packets_stay_apart();
    what_is_too_large_is_refused_before_it_is_sent();
    a_packet_with_too_many_descriptors_is_refused_whole();
    a_packet_that_is_too_long_or_too_short_is_refused();
    a_sender_that_is_gone_is_the_end();
    a_receiver_that_is_gone_is_an_error_not_a_signal();
    an_empty_socket_does_not_block_when_asked_not_to();
}

fn a_pipe_travels_with_its_tag_and_bytes() {
    let before = open_descriptors();
    let (sender, receiver) = pair().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    sender.send(u64::MAX, b"github", &[reader.as_fd()]).unwrap();
    drop(reader);
    let packet = receiver.receive().unwrap().unwrap();
    assert_eq!(
        (packet.tag, packet.bytes.as_slice(), packet.fds.len()),
        (u64::MAX, b"github".as_slice(), 1)
    );
    let fd = packet.fds.into_iter().next().unwrap();
    assert!(
        rustix::io::fcntl_getfd(&fd)
            .unwrap()
            .contains(rustix::io::FdFlags::CLOEXEC)
    );
    writer.write_all(b"bytes").unwrap();
    drop(writer);
    let mut text = String::new();
    File::from(fd).read_to_string(&mut text).unwrap();
    assert_eq!(text, "bytes");
    drop((sender, receiver));
    assert_eq!(open_descriptors(), before);
}

fn packets_stay_apart() {
    let (sender, receiver) = pair().unwrap();
    for tag in 0..10 {
        let fds = vec![sender.as_fd(); usize::try_from(tag).unwrap() % (MAX_FDS + 1)];
        sender
            .send(tag, &vec![7; usize::try_from(tag).unwrap() * 100], &fds)
            .unwrap();
    }
    for tag in 0..10 {
        let packet = receiver.receive().unwrap().unwrap();
        let expected = usize::try_from(tag).unwrap();
        assert_eq!(
            (packet.tag, packet.bytes.len(), packet.fds.len()),
            (tag, expected * 100, expected % (MAX_FDS + 1))
        );
    }
}

fn what_is_too_large_is_refused_before_it_is_sent() {
    let (sender, receiver) = pair().unwrap();
    assert_eq!(
        sender.send(1, &[0; MAX_BYTES + 1], &[]).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        sender
            .send(1, &[], &[sender.as_fd(); MAX_FDS + 1])
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    sender
        .send(2, &[9; MAX_BYTES], &[sender.as_fd(); MAX_FDS])
        .unwrap();
    let packet = receiver.receive().unwrap().unwrap();
    assert_eq!(
        (packet.tag, packet.bytes.len(), packet.fds.len()),
        (2, MAX_BYTES, MAX_FDS)
    );
}

/// What a hostile or broken sender could do on the same socket, without our limits.
fn send_raw(to: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(fds)));
    sendmsg(
        to,
        &[std::io::IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::empty(),
    )
    .unwrap();
}

fn packet_error(error: &std::io::Error) -> Option<PacketError> {
    error.get_ref()?.downcast_ref::<PacketError>().copied()
}

fn a_packet_with_too_many_descriptors_is_refused_whole() {
    let (sender, receiver) = pair().unwrap();
    let before = open_descriptors();
    for count in [MAX_FDS + 1, MAX_FDS + 2, 64] {
        send_raw(sender.as_fd(), &[0; 8], &vec![sender.as_fd(); count]);
        let error = receiver.receive().unwrap_err();
        assert_eq!(
            packet_error(&error),
            Some(PacketError::TooManyDescriptors),
            "{count}"
        );
        assert_eq!(
            open_descriptors(),
            before,
            "{count} descriptors were sent and some leaked"
        );
    }
    sender.send(5, b"next", &[]).unwrap();
    assert_eq!(receiver.receive().unwrap().unwrap().tag, 5);
}

fn a_packet_that_is_too_long_or_too_short_is_refused() {
    let (sender, receiver) = pair().unwrap();
    let before = open_descriptors();
    send_raw(
        sender.as_fd(),
        &vec![0; 8 + MAX_BYTES + 1],
        &[sender.as_fd()],
    );
    assert_eq!(
        packet_error(&receiver.receive().unwrap_err()),
        Some(PacketError::TooManyBytes)
    );
    send_raw(sender.as_fd(), &[0; 7], &[sender.as_fd()]);
    assert_eq!(
        packet_error(&receiver.receive().unwrap_err()),
        Some(PacketError::NoTag)
    );
    assert_eq!(open_descriptors(), before);
}

fn a_sender_that_is_gone_is_the_end() {
    let (sender, receiver) = pair().unwrap();
    sender.send(1, b"last words", &[]).unwrap();
    drop(sender);
    assert_eq!(receiver.receive().unwrap().unwrap().bytes, b"last words");
    assert!(receiver.receive().unwrap().is_none());
    assert!(receiver.receive().unwrap().is_none());
}

fn a_receiver_that_is_gone_is_an_error_not_a_signal() {
    let (sender, receiver) = pair().unwrap();
    drop(receiver);
    assert_eq!(
        sender.send(1, b"", &[]).unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
}

fn an_empty_socket_does_not_block_when_asked_not_to() {
    let (sender, receiver) = pair().unwrap();
    receiver.set_nonblocking(true).unwrap();
    sender.set_nonblocking(true).unwrap();
    assert!(receiver.as_raw_fd() != sender.as_raw_fd());
    assert_eq!(
        receiver.receive().unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    let full = loop {
        if let Err(error) = sender.send(1, &[0; MAX_BYTES], &[]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
}

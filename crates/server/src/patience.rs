//! How long a slow reader is waited for.
//!
//! A write that cannot go on starts a clock. Each byte that leaves turns it back, at [`SLOWEST`] bytes a second and never beyond the full
//! time. So a reader that takes nothing loses its connection after that time, one that takes a byte now and then does too, and one
//! that is merely slow does not.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::AsyncWrite,
    time::{Instant, Sleep, sleep},
};

/// Who reads at least so many bytes a second is never let go.
pub(crate) const SLOWEST: u32 = 32 << 10;

#[derive(Debug)]
pub(crate) struct Patience {
    most: Duration,
    /// Runs while something waits to be written.
    clock: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(crate) const fn new(most: Duration) -> Self {
        Self { most, clock: None }
    }

    /// Passes on what a write came to, and fails it when the reader has had its time.
    pub(crate) fn watch(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => {
                let most = self.most;
                let clock = self.clock.get_or_insert_with(|| Box::pin(sleep(most)));
                ready!(clock.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client does not read",
                )))
            }
            Poll::Ready(Ok(bytes)) => {
                if let Some(clock) = &mut self.clock {
                    let earned = Duration::from_secs(bytes as u64) / SLOWEST;
                    let until = (clock.deadline() + earned).min(Instant::now() + self.most);
                    clock.as_mut().reset(until);
                }
                Poll::Ready(Ok(bytes))
            }
            failed => failed,
        }
    }

    /// Everything there was has been written.
    pub(crate) fn rest(&mut self) {
        self.clock = None;
    }
}

/// A stream whose reader is waited for with patience. Flushing it says that everything was written.
#[derive(Debug)]
pub(crate) struct Patient<W> {
    writer: W,
    patience: Patience,
}

impl<W> Patient<W> {
    pub(crate) const fn new(writer: W, most: Duration) -> Self {
        Self {
            writer,
            patience: Patience::new(most),
        }
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Patient<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.writer).poll_write(cx, bytes);
        this.patience.watch(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.writer).poll_write_vectored(cx, pieces);
        this.patience.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.writer.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.patience.rest();
        Pin::new(&mut this.writer).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::{Instant, sleep},
    };

    use super::{Patient, SLOWEST};

    const MOST: Duration = Duration::from_secs(30);

    /// Writes `bytes` to a reader that takes `take` of them every `pause`.
    async fn written(bytes: usize, take: usize, pause: Duration) -> (io::Result<()>, Duration) {
        let (ours, mut theirs) = duplex(1024);
        let mut patient = Patient::new(ours, MOST);
        let reading = async move {
            let mut buffer = vec![0; take.max(1)];
            loop {
                sleep(pause).await;
                if take > 0 && theirs.read_exact(&mut buffer).await.is_err() {
                    return;
                }
            }
        };
        let began = Instant::now();
        let writing = async {
            patient.write_all(&vec![0; bytes]).await?;
            patient.flush().await
        };
        tokio::select! {
            written = writing => (written, began.elapsed()),
            () = reading => unreachable!("the writer is still there"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_let_go_in_time() {
        let (written, took) = written(1 << 20, 0, MOST).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(took >= MOST && took < 2 * MOST, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_a_byte_now_and_then_is_let_go_too() {
        let (written, took) = written(1 << 20, 1, Duration::from_secs(5)).await;
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(took < 2 * MOST, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_waited_for_as_long_as_it_takes() {
        let second = 1000 * Duration::from_millis(1);
        let (written, took) = written(100 * SLOWEST as usize, SLOWEST as usize, second).await;
        written.unwrap();
        assert!(took > 3 * MOST, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_before_does_not_count_against_a_later_answer() {
        let (ours, mut theirs): (_, DuplexStream) = duplex(1024);
        let mut patient = Patient::new(ours, MOST);
        let mut buffer = vec![0; 2048];
        let (wrote, read) = tokio::join!(patient.write_all(&[0; 2048]), async {
            sleep(MOST / 2).await;
            theirs.read_exact(&mut buffer).await
        });
        wrote.unwrap();
        read.unwrap();
        patient.flush().await.unwrap();
        sleep(10 * MOST).await;
        let (wrote, read) = tokio::join!(patient.write_all(&[0; 2048]), async {
            sleep(MOST / 2).await;
            theirs.read_exact(&mut buffer).await
        });
        wrote.unwrap();
        read.unwrap();
    }
}

//! Faults that the tests plant, one at a time, to see that they are found. Outside tests there are none.

/// One way in which a mechanism of this crate could be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// What a read brought counts as said.
    ReadsCountAsSaid,
    /// A value that was forgotten counts as said.
    ForgottenCountsAsSaid,
    /// The second record of a name does not make the name ambiguous.
    TwoRecordsAreOne,
    /// An argument whose role nobody knows is not looked at.
    UnknownRolesPass,
    /// Look-alikes are the same.
    LookAlikesAreEqual,
    /// Only the first value of a list is looked at.
    OnlyTheFirstOfAList,
    /// A link inside a text is not looked at.
    LinksPass,
    /// What was named may be deleted though nobody said so.
    DeletingPasses,
    /// A plan may be replaced by a wider one after taint.
    PlansWiden,
    /// A planned argument may come from any read.
    AnyReadWillDo,
    /// A step may be done more often than planned.
    StepsRepeat,
    /// Putting a sealed text in does not join its label.
    FillingJoinsNothing,
    /// Opening a sealed text gives no label.
    OpeningJoinsNothing,
    /// A lasting answer covers any target.
    AnswersCoverAnyTarget,
    /// Nothing is forgotten, whatever it takes.
    NothingIsForgotten,
}

#[cfg(not(test))]
pub(crate) const fn has(_: Flaw) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Flaw>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn has(flaw: Flaw) -> bool {
    PLANTED.get() == Some(flaw)
}

/// Runs a test with this fault in place.
#[cfg(test)]
pub(crate) fn planted<T>(flaw: Flaw, run: impl FnOnce() -> T) -> T {
    PLANTED.set(Some(flaw));
    let result = run();
    PLANTED.set(None);
    result
}

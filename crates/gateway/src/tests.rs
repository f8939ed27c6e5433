mod holding;

-- A row of up to a page stays whole: an object of 4 KiB was kept in three pieces of a second table with an index of its own.
ALTER TABLE "blobs" SET (toast_tuple_target = 8160);

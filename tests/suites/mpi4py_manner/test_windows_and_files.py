"""Windows and files, as mpi4py's tests use them."""

import array
import os
import tempfile
import unittest

from mpi4py import MPI

COMM = MPI.COMM_WORLD
SIZE, RANK = COMM.Get_size(), COMM.Get_rank()


class Windows(unittest.TestCase):
    def setUp(self):
        self.memory = array.array("i", [RANK] * 8)
        self.win = MPI.Win.Create(self.memory, 4, MPI.INFO_NULL, COMM)

    def tearDown(self):
        self.win.Free()
        self.assertEqual(self.win, MPI.WIN_NULL)

    def test_attributes(self):
        base, size, unit = self.win.attrs
        self.assertEqual((size, unit), (32, 4))
        self.assertEqual(base, self.memory.buffer_info()[0])
        self.assertEqual(self.win.flavor, MPI.WIN_FLAVOR_CREATE)
        self.assertIn(self.win.model, (MPI.WIN_SEPARATE, MPI.WIN_UNIFIED))

    def test_put_and_get(self):
        out = array.array("i", [0] * 8)
        self.win.Fence()
        self.win.Get(out, (RANK + 1) % SIZE)
        self.win.Fence()
        self.assertEqual(out[0], (RANK + 1) % SIZE)
        self.win.Put(array.array("i", [RANK + 50] * 8), (RANK + 1) % SIZE)
        self.win.Fence()
        self.assertEqual(self.memory[0], (RANK - 1) % SIZE + 50)

    def test_locks(self):
        self.win.Lock(0, MPI.LOCK_EXCLUSIVE)
        self.win.Accumulate(array.array("i", [1] * 8), 0)
        self.win.Unlock(0)
        COMM.Barrier()
        self.win.Lock(RANK)
        self.assertEqual(self.memory[0], SIZE if RANK == 0 else RANK)
        self.win.Unlock(RANK)

    def test_errors(self):
        self.assertEqual(self.win.Get_errhandler(), MPI.ERRORS_RETURN)
        for name in ("Fence", "Get_group", "Get_name", "Get_errhandler"):
            with self.assertRaises(MPI.Exception) as caught:
                getattr(MPI.WIN_NULL, name)()
            self.assertEqual(caught.exception.Get_error_class(), MPI.ERR_WIN)

    def test_name_and_hints(self):
        self.win.Set_name("mine")
        self.assertEqual(self.win.Get_name(), "mine")
        info = self.win.Get_info()
        self.win.Set_info(info)
        info.Free()
        group = self.win.Get_group()
        self.assertEqual(group.Get_size(), SIZE)
        group.Free()


class Files(unittest.TestCase):
    def setUp(self):
        name = tempfile.mktemp(prefix="cropdl-suite-") if RANK == 0 else None
        self.name = COMM.bcast(name)
        self.file = MPI.File.Open(COMM, self.name, MPI.MODE_RDWR | MPI.MODE_CREATE | MPI.MODE_DELETE_ON_CLOSE)

    def tearDown(self):
        self.file.Close()
        COMM.Barrier()
        self.assertFalse(os.path.exists(self.name))

    def test_mode(self):
        self.assertEqual(self.file.amode, MPI.MODE_RDWR | MPI.MODE_CREATE | MPI.MODE_DELETE_ON_CLOSE)
        self.assertEqual(self.file.Get_errhandler(), MPI.ERRORS_RETURN)

    def test_at(self):
        self.file.Write_at_all(RANK * 16, array.array("i", [RANK] * 4))
        self.file.Sync()
        COMM.Barrier()
        out = array.array("i", [-1] * 4)
        self.file.Read_at_all((RANK + 1) % SIZE * 16, out)
        self.assertEqual(list(out), [(RANK + 1) % SIZE] * 4)
        self.assertEqual(self.file.Get_size(), 16 * SIZE)

    def test_view(self):
        vector = MPI.INT.Create_vector(3, 1, SIZE).Commit()
        self.file.Set_view(4 * RANK, MPI.INT, vector, "native")
        self.assertEqual(self.file.Get_view()[0], 4 * RANK)
        self.assertEqual(self.file.Get_view()[3], "native")
        self.file.Write_all(array.array("i", [RANK] * 3))
        vector.Free()
        self.file.Set_view(0, MPI.INT, MPI.INT)
        COMM.Barrier()
        out = array.array("i", [-1] * SIZE)
        self.file.Read_at(0, out)
        self.assertEqual(list(out), list(range(SIZE)))

    def test_nonblocking(self):
        self.file.Iwrite_at(RANK * 4, array.array("i", [RANK])).Wait()
        self.file.Sync()
        COMM.Barrier()
        out = array.array("i", [-1])
        status = MPI.Status()
        self.file.Iread_at(RANK * 4, out).Wait(status)
        self.assertEqual((out[0], status.Get_count(MPI.INT)), (RANK, 1))

    def test_missing(self):
        with self.assertRaises(MPI.Exception) as caught:
            MPI.File.Open(MPI.COMM_SELF, "/nowhere/at all", MPI.MODE_RDONLY)
        self.assertIn(caught.exception.Get_error_class(), (MPI.ERR_NO_SUCH_FILE, MPI.ERR_BAD_FILE))


if __name__ == "__main__":
    unittest.main()

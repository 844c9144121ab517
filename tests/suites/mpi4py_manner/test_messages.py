"""Messages, probes, statuses and requests, as mpi4py's tests use them."""

import array
import unittest

from mpi4py import MPI

COMM = MPI.COMM_WORLD
SIZE, RANK = COMM.Get_size(), COMM.Get_rank()
RIGHT, LEFT = (RANK + 1) % SIZE, (RANK - 1) % SIZE


def marked():
    status = MPI.Status()
    status.source, status.tag, status.error = 1001, 1002, MPI.ERR_TOPOLOGY
    return status


class Statuses(unittest.TestCase):
    def check_untouched(self, status):
        self.assertEqual((status.source, status.tag, status.error), (1001, 1002, MPI.ERR_TOPOLOGY))

    def test_iprobe_without_a_message(self):
        status = marked()
        self.assertFalse(COMM.Iprobe(MPI.ANY_SOURCE, 77, status))
        self.check_untouched(status)

    def test_improbe_without_a_message(self):
        status = marked()
        self.assertIsNone(COMM.Improbe(MPI.ANY_SOURCE, 77, status))
        self.check_untouched(status)

    def test_probe_of_nobody(self):
        status = marked()
        COMM.Probe(MPI.PROC_NULL, MPI.ANY_TAG, status)
        self.assertEqual((status.source, status.tag), (MPI.PROC_NULL, MPI.ANY_TAG))
        self.assertEqual((status.Get_count(MPI.BYTE), status.Get_elements(MPI.BYTE)), (0, 0))
        self.assertFalse(status.Is_cancelled())

    def test_mprobe_of_nobody(self):
        status = marked()
        message = COMM.Mprobe(MPI.PROC_NULL, MPI.ANY_TAG, status)
        self.assertEqual(message, MPI.MESSAGE_NO_PROC)
        self.assertEqual((status.source, status.tag), (MPI.PROC_NULL, MPI.ANY_TAG))
        message.Recv(None)
        self.assertEqual(message, MPI.MESSAGE_NULL)

    def test_status_of_the_null_request(self):
        status = marked()
        self.assertTrue(MPI.REQUEST_NULL.Get_status(status))
        self.assertEqual((status.source, status.tag, status.Get_count(MPI.BYTE)), (MPI.ANY_SOURCE, MPI.ANY_TAG, 0))

    def test_wait_for_the_null_request(self):
        status = marked()
        MPI.Request(MPI.REQUEST_NULL).Wait(status)
        self.assertEqual((status.source, status.tag), (MPI.ANY_SOURCE, MPI.ANY_TAG))
        self.assertTrue(MPI.Request(MPI.REQUEST_NULL).Test(status))

    def test_wait_any_of_none(self):
        nothing = [MPI.Request(MPI.REQUEST_NULL)] * 3
        self.assertEqual(MPI.Request.Waitany(nothing), MPI.UNDEFINED)
        self.assertEqual(MPI.Request.Testany(nothing), (MPI.UNDEFINED, True))
        self.assertIsNone(MPI.Request.Waitsome(nothing))
        self.assertIsNone(MPI.Request.Testsome(nothing))
        MPI.Request.Waitall(nothing)
        self.assertTrue(MPI.Request.Testall(nothing))

    def test_set_fields(self):
        status = MPI.Status()
        for size in range(12):
            status.Set_elements(MPI.INT, size)
            self.assertEqual(status.Get_elements(MPI.INT), size)
            self.assertEqual(status.Get_count(MPI.INT), size)
        status.Set_cancelled(True)
        self.assertTrue(status.Is_cancelled())

    def test_copies(self):
        status = marked()
        copy = MPI.Status(status)
        status.source = 5
        self.check_untouched(copy)


class Messages(unittest.TestCase):
    def test_ring(self):
        for typecode in "bhilqfd":
            sent, received = array.array(typecode, [RANK] * 9), array.array(typecode, [0] * 9)
            status = MPI.Status()
            COMM.Sendrecv(sent, RIGHT, 3, received, LEFT, 3, status)
            self.assertEqual(received, array.array(typecode, [LEFT] * 9))
            self.assertEqual((status.source, status.tag), (LEFT, 3))

    def test_replace(self):
        buffer = array.array("i", range(RANK, RANK + 5))
        COMM.Sendrecv_replace(buffer, RIGHT, 0, LEFT, 0)
        self.assertEqual(list(buffer), list(range(LEFT, LEFT + 5)))

    def test_modes(self):
        for send in (COMM.Isend, COMM.Issend):
            received = array.array("i", [0])
            other = COMM.Irecv(received, LEFT, 9)
            mine = send(array.array("i", [RANK + 7]), RIGHT, 9)
            MPI.Request.Waitall([other, mine])
            self.assertEqual(received[0], LEFT + 7)

    def test_buffered(self):
        room = MPI.Alloc_mem(1000 + MPI.BSEND_OVERHEAD)
        MPI.Attach_buffer(room)
        COMM.Bsend(array.array("i", [RANK]), RIGHT, 1)
        received = array.array("i", [-1])
        COMM.Recv(received, LEFT, 1)
        MPI.Detach_buffer()
        MPI.Free_mem(room)
        self.assertEqual(received[0], LEFT)

    def test_persistent(self):
        sent, received = array.array("i", [0]), array.array("i", [0])
        requests = [COMM.Send_init(sent, RIGHT, 2), COMM.Recv_init(received, LEFT, 2)]
        for i in range(3):
            sent[0] = 10 * i + RANK
            MPI.Prequest.Startall(requests)
            MPI.Request.Waitall(requests)
            self.assertEqual(received[0], 10 * i + LEFT)
        for request in requests:
            request.Free()
            self.assertEqual(request, MPI.REQUEST_NULL)

    def test_objects(self):
        for something in (None, 1, "text", [1, 2, {3: 4}], (RANK, 1.5)):
            COMM.send(something, RIGHT, 4)
            self.assertEqual(COMM.recv(source=LEFT, tag=4), LEFT_OF(something))

    def test_matched(self):
        request = COMM.isend([RANK] * 20, RIGHT, 6)
        status = MPI.Status()
        message = COMM.mprobe(MPI.ANY_SOURCE, 6, status)
        self.assertEqual(message.recv(), [LEFT] * 20)
        self.assertEqual((status.source, status.tag), (LEFT, 6))
        request.wait()

    def test_cancelled(self):
        request = COMM.Irecv(array.array("i", [0]), LEFT, 12345)
        status = MPI.Status()
        request.Cancel()
        request.Wait(status)
        self.assertTrue(status.Is_cancelled())

    def test_truncated(self):
        request = COMM.Isend(array.array("i", range(8)), RIGHT, 8)
        with self.assertRaises(MPI.Exception) as caught:
            COMM.Recv(array.array("i", [0]), LEFT, 8)
        self.assertEqual(caught.exception.Get_error_class(), MPI.ERR_TRUNCATE)
        request.Wait()

    def test_generalized(self):
        log = []
        request = MPI.Grequest.Start(lambda status: log.append("query"), lambda: log.append("free"),
                                     lambda complete: log.append(f"cancel {complete}"))
        self.assertFalse(request.Test())
        request.Cancel()
        request.Complete()
        request.Wait()
        self.assertEqual(log, ["cancel False", "query", "free"])


def LEFT_OF(something):
    """The message of the left neighbour when this rank sent `something`."""
    return (LEFT, 1.5) if isinstance(something, tuple) else something


if __name__ == "__main__":
    unittest.main()

"""Communicators, groups, datatypes, operations, attributes, hints and errors, as mpi4py's tests use them."""

import array
import unittest

from mpi4py import MPI

COMM = MPI.COMM_WORLD
SIZE, RANK = COMM.Get_size(), COMM.Get_rank()


class Errors(unittest.TestCase):
    def check(self, error_class, function, *arguments):
        with self.assertRaises(MPI.Exception) as caught:
            function(*arguments)
        self.assertEqual(caught.exception.Get_error_class(), error_class)

    def test_of_null_communicators(self):
        for name in ("Get_size", "Get_rank", "Get_group", "Get_topology", "Is_inter", "Barrier", "Get_errhandler", "Free"):
            with self.subTest(name=name):
                self.check(MPI.ERR_COMM, getattr(MPI.Comm(MPI.COMM_NULL), name))
        self.check(MPI.ERR_COMM, MPI.COMM_NULL.Set_errhandler, MPI.ERRORS_RETURN)
        self.check(MPI.ERR_COMM, MPI.COMM_NULL.Get_attr, MPI.TAG_UB)

    def test_of_null_objects(self):
        self.check(MPI.ERR_TYPE, MPI.Datatype(MPI.DATATYPE_NULL).Get_size)
        self.check(MPI.ERR_TYPE, MPI.Datatype(MPI.DATATYPE_NULL).Free)
        self.check(MPI.ERR_GROUP, MPI.Group(MPI.GROUP_NULL).Get_size)
        self.check(MPI.ERR_OP, MPI.Op(MPI.OP_NULL).Free)
        self.check(MPI.ERR_INFO, MPI.Info(MPI.INFO_NULL).Get_nkeys)
        self.check(MPI.ERR_ARG, MPI.Errhandler(MPI.ERRHANDLER_NULL).Free)

    def test_handlers_have_references(self):
        before = COMM.Get_errhandler()
        COMM.Set_errhandler(MPI.ERRORS_RETURN)
        self.assertEqual(COMM.Get_errhandler(), MPI.ERRORS_RETURN)
        COMM.Set_errhandler(before)
        self.assertEqual(COMM.Get_errhandler(), before)

    def test_wrong_arguments(self):
        self.check(MPI.ERR_RANK, COMM.Send, array.array("i", [0]), SIZE + 3)
        self.check(MPI.ERR_TAG, COMM.Send, array.array("i", [0]), RANK, -5)
        self.check(MPI.ERR_ROOT, COMM.Bcast, array.array("i", [0]), SIZE + 3)

    def test_wrong_key_of_hints(self):
        info = MPI.Info.Create()
        try:
            info.Get_nthkey(3)
        except MPI.Exception as error:
            self.assertIn(error.Get_error_class(), (MPI.ERR_ARG, MPI.ERR_INFO_KEY, MPI.ERR_INFO_NOKEY))
        else:
            self.fail("no error")
        self.check(MPI.ERR_INFO_NOKEY, info.Delete, "nothing")
        info.Free()

    def test_codes(self):
        for code in range(1, 20):
            self.assertEqual(MPI.Get_error_class(code), code)
            self.assertTrue(MPI.Get_error_string(code))
        own_class = MPI.Add_error_class()
        own_code = MPI.Add_error_code(own_class)
        MPI.Add_error_string(own_code, "own words")
        self.assertEqual(MPI.Get_error_class(own_code), own_class)
        self.assertEqual(MPI.Get_error_string(own_code), "own words")


class Communicators(unittest.TestCase):
    def test_constants(self):
        self.assertEqual(MPI.COMM_SELF.Get_size(), 1)
        self.assertEqual(MPI.Comm.Compare(COMM, COMM), MPI.IDENT)
        self.assertTrue(COMM.Get_attr(MPI.TAG_UB) >= 32767)

    def test_dup_and_split(self):
        dup = COMM.Dup()
        self.assertEqual(MPI.Comm.Compare(COMM, dup), MPI.CONGRUENT)
        half = dup.Split(RANK % 2, -RANK)
        self.assertEqual(half.allreduce(1), (SIZE + 1 - RANK % 2) // 2)
        half.Free()
        dup.Set_name("own name")
        self.assertEqual(dup.Get_name(), "own name")
        dup.Free()
        self.assertEqual(dup, MPI.COMM_NULL)

    def test_idup(self):
        dup, request = COMM.Idup()
        request.Wait()
        self.assertEqual(dup.allreduce(2), 2 * SIZE)
        dup.Free()

    def test_undefined_color(self):
        none = COMM.Split(MPI.UNDEFINED, 0)
        self.assertEqual(none, MPI.COMM_NULL)

    def test_create_group(self):
        group = COMM.Get_group()
        some = group.Incl(list(range(0, SIZE, 2)))
        comm = COMM.Create(some)
        self.assertEqual(comm != MPI.COMM_NULL, RANK % 2 == 0)
        if comm:
            self.assertEqual(MPI.Group.Translate_ranks(some, [0], group), [0])
            comm.Free()
        some.Free()
        group.Free()

    def test_topologies(self):
        cart = COMM.Create_cart(MPI.Compute_dims(SIZE, 2), [True, False], False)
        self.assertEqual(cart.Get_topology(), MPI.CART)
        self.assertEqual(cart.Get_cart_rank(cart.Get_coords(cart.Get_rank())), cart.Get_rank())
        cart.Shift(0, 1)
        cart.Free()
        graph = COMM.Create_dist_graph_adjacent([(RANK - 1) % SIZE], [(RANK + 1) % SIZE])
        self.assertEqual(graph.Get_dist_neighbors_count()[:2], (1, 1))
        self.assertEqual(graph.neighbor_allgather(RANK), [(RANK - 1) % SIZE])
        graph.Free()

    def test_collectives(self):
        self.assertEqual(COMM.allgather(RANK), list(range(SIZE)))
        self.assertEqual(COMM.alltoall([RANK * 10 + i for i in range(SIZE)]), [i * 10 + RANK for i in range(SIZE)])
        self.assertEqual(COMM.bcast("x" * 999 if RANK == 0 else None), "x" * 999)
        self.assertEqual(COMM.scan(1), RANK + 1)
        total = array.array("d", [0])
        COMM.Iallreduce(array.array("d", [RANK]), total).Wait()
        self.assertEqual(total[0], SIZE * (SIZE - 1) / 2)

    def test_intercommunicator(self):
        if SIZE < 2:
            self.skipTest("one rank")
        low = RANK < SIZE // 2
        local = COMM.Split(0 if low else 1, RANK)
        inter = local.Create_intercomm(0, COMM, SIZE // 2 if low else 0, 5)
        self.assertTrue(inter.Is_inter())
        self.assertEqual(inter.allgather(RANK), list(range(SIZE // 2, SIZE)) if low else list(range(SIZE // 2)))
        merged = inter.Merge(not low)
        self.assertEqual(merged.Get_size(), SIZE)
        for comm in (merged, inter, local):
            comm.Free()


class Attributes(unittest.TestCase):
    def test_copied_and_deleted(self):
        log = []
        keyval = MPI.Comm.Create_keyval(copy_fn=lambda o, k, v: (log.append("copy"), v)[1],
                                        delete_fn=lambda o, k, v: log.append("delete"))
        dup = COMM.Dup()
        dup.Set_attr(keyval, ["value"])
        again = dup.Dup()
        self.assertEqual(again.Get_attr(keyval), ["value"])
        again.Free()
        dup.Delete_attr(keyval)
        self.assertIsNone(dup.Get_attr(keyval))
        MPI.Comm.Free_keyval(keyval)
        dup.Free()
        self.assertEqual(log, ["copy", "delete", "delete"])

    def test_copy_function_that_fails(self):
        def fail(*_):
            raise ValueError("on purpose")
        comm = MPI.COMM_SELF.Dup()
        keyval = MPI.Comm.Create_keyval(copy_fn=fail)
        comm.Set_attr(keyval, 1)
        try:
            comm.Dup()
        except ValueError:
            pass
        except MPI.Exception as error:
            self.assertEqual(error.Get_error_class(), MPI.ERR_OTHER)
        comm.Delete_attr(keyval)
        MPI.Comm.Free_keyval(keyval)
        comm.Free()

    def test_keyval_freed_while_attached(self):
        comm = MPI.COMM_SELF.Dup()
        keyval = MPI.Comm.Create_keyval(nopython=True)
        comm.Set_attr(keyval, 12)
        self.assertEqual(MPI.Comm.Free_keyval(keyval), MPI.KEYVAL_INVALID)
        comm.Free()


class Datatypes(unittest.TestCase):
    def test_contents(self):
        for made, combiner in ((MPI.INT.Create_contiguous(3), MPI.COMBINER_CONTIGUOUS),
                               (MPI.INT.Create_vector(2, 1, 3), MPI.COMBINER_VECTOR),
                               (MPI.INT.Create_hindexed([1, 2], [0, 32]), MPI.COMBINER_HINDEXED),
                               (MPI.INT.Create_subarray([4, 4], [2, 2], [1, 1], MPI.ORDER_F), MPI.COMBINER_SUBARRAY),
                               (MPI.INT.Create_darray(SIZE, RANK, [9], [MPI.DISTRIBUTE_CYCLIC], [MPI.DISTRIBUTE_DFLT_DARG], [SIZE]),
                                MPI.COMBINER_DARRAY),
                               (MPI.INT.Create_resized(-4, 20), MPI.COMBINER_RESIZED), (MPI.INT.Dup(), MPI.COMBINER_DUP),
                               (MPI.Datatype.Create_struct([1, 2], [0, 8], [MPI.INT, MPI.DOUBLE]), MPI.COMBINER_STRUCT)):
            self.assertEqual(made.combiner, combiner)
            basetype, name, values = made.decode()
            self.assertFalse(made.is_predefined)
            self.assertTrue(name)
            if isinstance(values, dict) and "order" in values:
                self.assertEqual(values["order"], MPI.ORDER_F if combiner == MPI.COMBINER_SUBARRAY else MPI.ORDER_C)
            made.Commit().Free()

    def test_sizes(self):
        vector = MPI.DOUBLE.Create_vector(3, 2, 4).Commit()
        self.assertEqual((vector.Get_size(), vector.Get_extent(), vector.Get_true_extent()), (48, (0, 80), (0, 80)))
        vector.Free()
        self.assertEqual(MPI.Datatype.Match_size(MPI.TYPECLASS_INTEGER, 4).Get_size(), 4)
        self.assertEqual(MPI.INT.Get_name(), "MPI_INT")

    def test_pack(self):
        data, room = array.array("i", range(20)), bytearray(100)
        self.assertEqual(MPI.INT.Pack(data, room, 0, COMM), 80)
        out = array.array("i", [0] * 20)
        MPI.INT.Unpack(room, 0, out, COMM)
        self.assertEqual(out, data)

    def test_f90(self):
        real = MPI.Datatype.Create_f90_real(6, 30)
        self.assertIn(real.Get_envelope()[-1], (MPI.COMBINER_F90_REAL,))


class Operations(unittest.TestCase):
    def test_own(self):
        def least(a, b, _):
            x, y = memoryview(a).cast("i"), memoryview(b).cast("i")
            for i in range(len(x)):
                y[i] = min(x[i], y[i])
        op = MPI.Op.Create(least, True)
        self.assertTrue(op.Is_commutative())
        self.assertFalse(op.Is_predefined())
        out = array.array("i", [0, 0])
        COMM.Allreduce(array.array("i", [RANK + 1, -RANK]), out, op)
        self.assertEqual(list(out), [1, 1 - SIZE])
        op.Free()

    def test_local(self):
        out = array.array("i", [4])
        MPI.SUM.Reduce_local(array.array("i", [3]), out)
        self.assertEqual(out[0], 7)


class Hints(unittest.TestCase):
    def test_dictionary(self):
        info = MPI.Info.Create()
        info["first"], info["second"] = "1", "two"
        self.assertEqual((len(info), info.keys(), info.get("none")), (2, ["first", "second"], None))
        copy = info.Dup()
        del info["first"]
        self.assertEqual((len(info), len(copy), "first" in copy), (1, 2, True))
        info.Free()
        copy.Free()

    def test_of_a_communicator(self):
        info = COMM.Get_info()
        COMM.Set_info(info)
        info.Free()


if __name__ == "__main__":
    unittest.main()
